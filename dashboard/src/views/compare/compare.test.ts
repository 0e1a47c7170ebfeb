import { describe, expect, test } from "vitest";

import type { RunSnapshot, TaskRecord } from "../run/model";
import { compare, MAX_DIFFERENCES, pathText } from "./diff";
import { byChange, longest, previousOf, stepsOf } from "./steps";

describe("the differences of two values", () => {
  test("are listed by place, in order, and the rest is counted", () => {
    const { differences, equal } = compare(
      { day: "monday", n: 1, rows: [1, 2], same: { deep: [null, {}] }, gone: { x: 1, y: 2 } },
      { day: "tuesday", n: 1, rows: [1, 2, 3], same: { deep: [null, {}] }, new: true },
    );

    expect(differences.map(({ path, kind }) => [pathText(path), kind])).toEqual([
      ["day", "changed"],
      ["rows[2]", "added"],
      ["gone", "removed"],
      ["new", "added"],
    ]);
    expect(equal).toBe(5);
  });

  test.each([
    [1, "1"],
    [null, {}],
    [[], {}],
    [0, false],
    [{}, []],
  ])("%j and %j differ", (a, b) => {
    expect(compare(a, b).differences).toHaveLength(1);
    expect(compare(b, a).differences).toHaveLength(1);
  });

  test("a value equals itself", () => {
    const value = { a: [1, { b: null }], "": "x", constructor: 1 };

    expect(compare(value, structuredClone(value)).differences).toEqual([]);
  });

  test("swapping the sides swaps added and removed", () => {
    const [a, b] = [{ x: 1, only: 2 }, { x: 3, other: 4 }];
    const swap = { added: "removed", removed: "added", changed: "changed" } as const;

    const there = compare(a, b).differences.map(({ path, kind }) => `${pathText(path)} ${swap[kind]}`);
    const back = compare(b, a).differences.map(({ path, kind }) => `${pathText(path)} ${kind}`);

    expect(there.sort()).toEqual(back.sort());
  });

  test("keys that objects inherit are data too", () => {
    expect(compare({}, { toString: 1 }).differences).toEqual([{ path: ["toString"], kind: "added", b: 1 }]);
    expect(compare(JSON.parse('{"__proto__": 1}'), JSON.parse('{"__proto__": 2}')).differences).toHaveLength(1);
  });

  test("are bounded, also in deep values", () => {
    const many = Array.from({ length: 10 * MAX_DIFFERENCES }, (_, at) => at);
    let [deepA, deepB]: unknown[] = [1, 2];
    for (let depth = 0; depth < 2000; depth++) [deepA, deepB] = [[deepA], [deepB]];

    const found = compare(many, many.map((each) => each + 1));

    expect(found.differences).toHaveLength(MAX_DIFFERENCES);
    expect(found.isCut).toBe(true);
    expect(compare(deepA, deepB).differences).toHaveLength(1);
  });
});

test("a path is written as code", () => {
  expect(pathText(["orders", 3, "total", "with space", ""])).toBe('orders[3].total["with space"][""]');
});

function run(id: string, records: Record<string, TaskRecord>, more: Partial<RunSnapshot> = {}): RunSnapshot {
  return {
    run_id: id,
    flow_name: "f",
    status: "COMPLETED",
    params: {},
    tasks: Object.fromEntries(Object.entries(records).map(([name, { state }]) => [name, state as RunSnapshot["tasks"][string]])),
    task_records: { ...records },
    heartbeat_at: 0,
    updated_at: 0,
    version: 1,
    worker_alive: true,
    stale: false,
    end_time: 100,
    ...more,
  };
}

const took = (seconds: number): TaskRecord => ({ state: "SUCCEEDED", attempt: 1, started_at: 10, ended_at: 10 + seconds });

describe("the steps of two runs", () => {
  const a = run("a", { load: took(2), clean: took(5), old: took(1), never: { state: "PENDING", attempt: 0 } });
  const b = run("b", { load: took(3), clean: took(1), never: took(1), fresh: took(9) });

  test("are side by side, also those of one run only", () => {
    const steps = stepsOf(a, b);

    expect(steps.map(({ name, change }) => [name, change])).toEqual([
      ["load", 1],
      ["clean", -4],
      ["old", null],
      ["never", null],
      ["fresh", null],
    ]);
    expect(steps[2]!.b).toBeNull();
    expect(steps[3]!.a).toEqual({ state: "PENDING", seconds: null });
    expect(longest(steps)).toBe(9);
  });

  test("can be sorted by how much they changed", () => {
    expect(byChange(stepsOf(a, b)).map(({ name }) => name)).toEqual(["clean", "load", "old", "never", "fresh"]);
  });

  test("a task that ended with its run took until then", () => {
    const killed = run("c", { load: { state: "CANCELLED", attempt: 1, started_at: 40 } }, { status: "CANCELLED" });

    expect(stepsOf(killed, b)[0]!.a).toEqual({ state: "CANCELLED", seconds: 60 });
  });
});

test("the previous run is the one that was submitted last before", () => {
  const others = [
    { run_id: "later", submitted_at: 9 },
    { run_id: "first", submitted_at: 1 },
    { run_id: "before", submitted_at: 4 },
    { run_id: "this", submitted_at: 5 },
  ];

  expect(previousOf(others[3]!, others)!.run_id).toBe("before");
  expect(previousOf(others[1]!, others)).toBeUndefined();
});

test("a task with a name that objects inherit is a task of the runs that have it only", () => {
  const run = { run_id: "r", status: "COMPLETED", task_records: {} } as unknown as RunSnapshot;
  const names = ["constructor", "__proto__", "toString"];
  const a = { ...run, tasks: Object.fromEntries(names.map((name) => [name, "SUCCEEDED"])) } as RunSnapshot;

  const steps = stepsOf(a, { ...run, tasks: {} });

  expect(steps.map(({ name, a: one, b }) => [name, one?.state, b])).toEqual(names.map((name) => [name, "SUCCEEDED", null]));
});
