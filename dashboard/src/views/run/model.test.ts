import { describe, expect, test } from "vitest";

import { countsOf, edgesOf, isSilent, needsExplanation, nodesOf, progressOf, type RunSnapshot, taskState } from "./model";

const run: RunSnapshot = {
  run_id: "r",
  flow_name: "f",
  status: "RUNNING",
  params: {},
  tasks: { load: "SUCCEEDED", approve: "RUNNING", deploy: "PENDING", skip: "CANCELLED" },
  task_records: {
    load: { state: "SUCCEEDED", attempt: 2, started_at: 1, ended_at: 2 },
    approve: { state: "RUNNING", attempt: 1, started_at: 2, waiting_since: 3, progress: 50 },
    skip: { state: "CANCELLED", attempt: 0, reason: "skipped" },
  },
  heartbeat_at: 0,
  updated_at: 0,
  version: 1,
  worker_alive: true,
  stale: false,
};
const words = { state: (state: string) => state.toLowerCase(), attempt: (count: number) => `attempt ${count}` };

test("a run without a worker is not silent, however long it waits", () => {
  expect(isSilent({ ...run, stale: true, worker_id: "w" })).toBe(true);
  expect(isSilent({ ...run, stale: true, worker_id: null })).toBe(false);
  expect(isSilent({ ...run, stale: false, worker_id: "w" })).toBe(false);
});

test("waiting and skipped tasks are told from running and cancelled ones", () => {
  const states = nodesOf(run, run, words).map(({ state }) => state);

  expect(states).toEqual(["SUCCEEDED", "WAITING", "PENDING", "SKIPPED"]);
  expect(taskState("RUNNING", undefined)).toBe("RUNNING");
});

test("the second line of a node has its further attempts and its progress", () => {
  const running = { ...run, task_records: { approve: { state: "RUNNING", attempt: 3, progress: 12.4 } } };

  expect(nodesOf(run, run, words)[0]!.note).toBe("succeeded · attempt 2");
  expect(nodesOf(running, running, words)[1]!.note).toBe("running · 12% · attempt 3");
});

test("only running tasks have a progress", () => {
  const records = { load: { state: "SUCCEEDED", attempt: 1, progress: 100 }, approve: { state: "RUNNING", attempt: 1, progress: 42, message: "rows" } };

  expect(progressOf({ ...run, task_records: records })).toEqual([{ task: "approve", share: 0.42, message: "rows" }]);
  expect(progressOf(run)).toEqual([]);
});

test("a task that did not exist at a moment is pending then: the graph keeps its form", () => {
  const nodes = nodesOf(run, { ...run, tasks: {}, task_records: {} }, words);

  expect(nodes.map(({ id, state }) => [id, state])).toEqual(Object.keys(run.tasks).map((id) => [id, "PENDING"]));
});

test("edges are pairs, or have the choices on which they are followed", () => {
  expect(edgesOf([["a", "b"], { from: "b", to: "c", when: ["ship", "hold"] }, null])).toEqual([
    { from: "a", to: "b" },
    { from: "b", to: "c", label: "ship | hold" },
  ]);
});

test("tasks are counted by state, failures first", () => {
  const failed = { ...run, tasks: { ...run.tasks, bad: "FAILED" as const } };

  expect(countsOf(failed)).toEqual([
    ["FAILED", 1],
    ["WAITING", 1],
    ["PENDING", 1],
    ["SUCCEEDED", 1],
    ["SKIPPED", 1],
  ]);
});

describe("reasons are shown without being asked for", () => {
  test.each([
    ["pending", { status: "PENDING" as const, task_records: {} }, true],
    ["failed", { status: "FAILED" as const, task_records: {} }, true],
    ["stale", { stale: true, task_records: {} }, true],
    ["waiting for input", {}, true],
    ["running", { task_records: {} }, false],
    ["completed", { status: "COMPLETED" as const }, false],
  ])("%s: %j", (_name, more, expected) => {
    expect(needsExplanation({ ...run, ...more })).toBe(expected);
  });
});

test("a task with a name that objects inherit is pending where a run does not have it yet", () => {
  const later = { ...run, tasks: { constructor: "SUCCEEDED", toString: "RUNNING" }, task_records: {} } as unknown as RunSnapshot;

  const states = nodesOf(later, { ...run, tasks: {}, task_records: {} }, words).map(({ state }) => state);

  expect(states).toEqual(["PENDING", "PENDING"]);
});
