import { expect, test } from "vitest";
import { LineCache, LineLoader, lowerBound, numberAt, PAGE_LINES, rowOf, type Line, type Rows } from "./lines";

function line(n: number, message = String(n)): Line {
  return { n, ts: n, task: null, level: "INFO", stream: "stdout", message, attempt: 1 };
}

function lines(first: number, count: number): Line[] {
  return Array.from({ length: count }, (_, index) => line(first + index));
}

test("a row is a line, or one of those that a filter takes", () => {
  const filtered: Rows = { numbers: [3, 8, 20] };

  expect([numberAt({ total: 9 }, 4), rowOf({ total: 9 }, 5)]).toEqual([5, 4]);
  expect([numberAt(filtered, 1), rowOf(filtered, 8), rowOf(filtered, 9)]).toEqual([8, 1, 2]);
  expect(lowerBound([], 5)).toBe(0);
});

test("the cache is bounded and keeps what is in sight", () => {
  const cache = new LineCache();
  cache.keepAround(500_000);
  cache.put(lines(499_900, 200));

  for (let first = 1; first <= 200_000; first += PAGE_LINES) cache.put(lines(first, PAGE_LINES));

  expect(cache.size).toBeLessThanOrEqual(20_000);
  expect(cache.get(500_000)?.n).toBe(500_000);
});

test("long lines are bounded by their characters", () => {
  const cache = new LineCache();
  for (let n = 1; n <= 2000; n++) cache.put([line(n, "x".repeat(48_000))]);

  expect(cache.size).toBeLessThan(700);
});

/** A log whose requests are answered one by one. */
function log(total: number, { perPage = PAGE_LINES } = {}) {
  const cache = new LineCache();
  const asked: number[] = [];
  const problems: unknown[] = [];
  const answers: (() => void)[] = [];
  const loader = new LineLoader(
    cache,
    (from, limit) => {
      asked.push(from);
      return new Promise((resolve) => {
        answers.push(() => resolve({ items: lines(from, Math.min(limit, perPage, total - from + 1)) }));
      });
    },
    () => undefined,
    (error) => problems.push(error),
  );
  const answer = async (): Promise<void> => {
    answers.shift()?.();
    await new Promise((resolve) => setTimeout(resolve));
  };
  return { cache, loader, asked, answer, problems };
}

test("lines in sight are read once, in requests one after the other", async () => {
  const { cache, loader, asked, answer } = log(10_000);
  const rows = { total: 10_000 };

  loader.want(rows, 5000, 5060);
  loader.want(rows, 100, 160); // scrolled on before the first answer
  await answer();
  await answer();
  loader.want(rows, 110, 170);

  expect(asked).toEqual([5001, 101]);
  expect([cache.get(101)?.n, cache.get(500)?.n, cache.get(501)]).toEqual([101, 500, undefined]);
});

test("a page that is shorter than wanted is continued", async () => {
  const { loader, asked, answer, cache } = log(1000, { perPage: 30 });

  loader.want({ total: 1000 }, 0, 50);
  await answer();
  await answer();

  expect(asked).toEqual([1, 31]);
  expect(cache.size).toBe(60);
});

test("scrolling up reads the lines above in one request", async () => {
  const { loader, asked, answer, cache } = log(100_000);
  loader.want({ total: 100_000 }, 50_000, 50_060);
  await answer();

  loader.want({ total: 100_000 }, 49_990, 50_050);
  await answer();

  expect(asked).toEqual([50_001, 50_050 - PAGE_LINES + 1]);
  expect(cache.get(49_991)?.n).toBe(49_991);
});

test("lines that do not exist are not asked for again and again", async () => {
  const { loader, asked, answer } = log(10);

  loader.want({ total: 50 }, 0, 50);
  await answer();
  await answer();
  await answer();

  expect(asked.length).toBeLessThanOrEqual(2);
});
