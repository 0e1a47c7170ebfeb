import { expect, test } from "vitest";
import { OVERLAP_SEC, RunList, type Run } from "./run-list";

function run(id: string, updated_at: number, version = 1, status: Run["status"] = "RUNNING"): Run {
  return { run_id: id, status, updated_at, version } as Run;
}

function loaded(...runs: Run[]): RunList {
  const list = new RunList((each) => each.status === "RUNNING");
  list.append(runs);
  return list;
}

test("a loaded row changes in its place", () => {
  const list = loaded(run("c", 3), run("b", 2), run("a", 1));

  expect(list.change([run("a", 9, 2, "FAILED")])).toBe(true);

  expect(list.order).toEqual(["c", "b", "a"]);
  expect(list.at(2)).toMatchObject({ updated_at: 9, status: "FAILED" });
  expect(list.waiting.size).toBe(0);
});

test("what is new waits, and then comes first, with the rows that changed meanwhile", () => {
  const list = loaded(run("c", 3), run("b", 2), run("a", 1));

  list.change([run("d", 4), run("a", 5, 2), run("e", 6)]);
  expect([list.order, [...list.waiting.keys()]]).toEqual([["c", "b", "a"], ["d", "e"]]);
  list.showWaiting();

  expect(list.order).toEqual(["e", "a", "d", "c", "b"]);
  expect(list.waiting.size).toBe(0);
});

test("rows that left the filter stay where they are until the list is read again", () => {
  const list = loaded(run("c", 3), run("b", 2));

  list.change([run("b", 8, 2, "COMPLETED"), run("d", 9)]);
  list.showWaiting();

  expect(list.order).toEqual(["d", "c", "b"]);
});

test("a run that does not fit does not wait, also when it did fit before", () => {
  const list = loaded(run("a", 1));

  expect(list.change([run("b", 2, 1, "FAILED")])).toBe(false);
  list.change([run("c", 3)]);
  expect(list.change([run("c", 4, 2, "FAILED")])).toBe(true);

  expect(list.waiting.size).toBe(0);
});

test("a run of a page that is not read yet is no news, unless it has changed", () => {
  const list = loaded(run("c", 30), run("b", 20));

  expect(list.change([run("a", 19)])).toBe(false);
  expect(list.waiting.size).toBe(0);
  expect(list.change([run("z", 18), run("a", 21, 2)])).toBe(true);
  expect([...list.waiting.keys()]).toEqual(["a"]);
});

test("behind the last page every unknown run is news, also one of a clock that is behind", () => {
  const list = loaded(run("c", 30));
  list.append([run("b", 20)], true);

  expect(list.change([run("a", 19)])).toBe(true);
});

test("an older state and the same state change nothing", () => {
  const list = loaded(run("a", 5, 3));
  list.change([run("b", 6, 2)]);

  expect(list.change([run("a", 4, 2), run("a", 5, 3), run("b", 5, 1), run("b", 6, 2)])).toBe(false);
  list.append([run("a", 4, 2)]);

  expect(list.at(0)).toMatchObject({ version: 3 });
  expect(list.waiting.get("b")).toMatchObject({ version: 2 });
});

test("a run on two pages is shown once, in its newer state", () => {
  const list = loaded(run("b", 2), run("a", 1));

  list.append([run("b", 9, 2), run("z", 0)]);

  expect(list.order).toEqual(["b", "a", "z"]);
  expect(list.get("b")).toMatchObject({ version: 2 });
});

test("a run that waits is not added at the end too", () => {
  const list = loaded(run("b", 2));
  list.change([run("a", 9, 2)]);

  list.append([run("a", 1, 1)]);
  list.showWaiting();

  expect(list.order).toEqual(["a", "b"]);
  expect(list.get("a")).toMatchObject({ version: 2 });
});

test("changes are asked for from the newest one seen, with an overlap", () => {
  const list = new RunList();
  expect(list.changedAfter).toBeNull();

  list.append([run("a", 100)]);
  list.change([run("b", 120, 1, "FAILED")]);
  list.note(110);

  expect(list.changedAfter).toBe(120 - OVERLAP_SEC);
});
