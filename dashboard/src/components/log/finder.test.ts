import { expect, test } from "vitest";
import { type Found, MatchFinder, type MatchesPage, matchFrom, occurrences } from "./finder";

/** A log that is searched in parts of ten lines; every seventh line matches. */
function searched(log: { lines: number; isOver: boolean }) {
  const asked: (string | undefined)[] = [];
  const states: Found[] = [];
  const finder = new MatchFinder(
    (token) => {
      asked.push(token);
      const from = Number(token ?? 0);
      const to = Math.min(from + 10, log.lines);
      const numbers = Array.from({ length: to - from }, (_, index) => from + index + 1).filter((each) => each % 7 === 0);
      const page: MatchesPage = { numbers, next_token: String(to), complete: log.isOver && to === log.lines, scanned_to: to, lines: log.lines };
      return Promise.resolve(page);
    },
    (found) => states.push(found),
    (error) => {
      throw error;
    },
  );
  return { finder, asked, states };
}

test("matches are shown as they are found, over the whole log", async () => {
  const { finder, asked, states } = searched({ lines: 35, isOver: true });

  await finder.search();

  expect(asked).toEqual([undefined, "10", "20", "30"]);
  expect(states.map((each) => each.numbers.length)).toEqual([1, 2, 4, 5]);
  expect(states.at(-1)).toEqual({ numbers: [7, 14, 21, 28, 35], scannedTo: 35, lines: 35, isDone: true });
  await finder.search(35);
  expect(asked.length).toBe(4);
});

test("a growing log is searched on from where the search was", async () => {
  const log = { lines: 15, isOver: false };
  const { finder, asked, states } = searched(log);
  await finder.search();

  await finder.search(15);
  log.lines = 22;
  await finder.search(22);

  expect(asked).toEqual([undefined, "10", "15"]);
  expect(states.at(-1)?.numbers).toEqual([7, 14, 21]);
});

test("lines that come during a search are searched too", async () => {
  const log = { lines: 15, isOver: false };
  const { finder, states } = searched(log);

  const searching = finder.search();
  log.lines = 40;
  await finder.search(40);
  await searching;

  expect(states.at(-1)).toMatchObject({ numbers: [7, 14, 21, 28, 35], isDone: true });
});

test("the next match is behind the line, around the end", () => {
  const numbers = [7, 14, 21];

  expect([matchFrom(numbers, 7, 1), matchFrom(numbers, 8, 1), matchFrom(numbers, 21, 1), matchFrom(numbers, 0, 1)]).toEqual([14, 14, 7, 7]);
  expect([matchFrom(numbers, 7, -1), matchFrom(numbers, 8, -1), matchFrom(numbers, 21, -1)]).toEqual([21, 7, 14]);
  expect(matchFrom([], 3, 1)).toBeNull();
});

test("a text is marked in any case, unless it has an upper-case letter", () => {
  expect(occurrences("Error: an ERROR", "error")).toEqual([0, 10]);
  expect(occurrences("Error: an ERROR", "Error")).toEqual([0]);
  expect(occurrences("aaaa", "aa")).toEqual([0, 2]);
  expect(occurrences("İx error ERROR", "error")).toEqual([3]);
  expect(occurrences("x", "")).toEqual([]);
});
