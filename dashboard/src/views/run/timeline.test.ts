import { describe, expect, test } from "vitest";

import type { RunSnapshot, TaskRecord } from "./model";
import { type Bar, momentOf, needsEvents, type NodeMoment, ticks, timelineOf } from "./timeline";

function run(status: string, records: Record<string, TaskRecord>, more: Partial<RunSnapshot> = {}): RunSnapshot {
  return {
    run_id: "r",
    flow_name: "f",
    status: status as RunSnapshot["status"],
    params: {},
    tasks: Object.fromEntries(Object.entries(records).map(([name, { state }]) => [name, state as RunSnapshot["tasks"][string]])),
    task_records: { ...records },
    heartbeat_at: 0,
    updated_at: 0,
    version: 1,
    worker_alive: true,
    stale: false,
    submitted_at: 99,
    start_time: 100,
    ...more,
  };
}

const done = (from: number, to: number): TaskRecord => ({ state: "SUCCEEDED", attempt: 1, started_at: from, ended_at: to });
const pending: TaskRecord = { state: "PENDING", attempt: 0 };

function bars(lanes: readonly { node: string; bars: readonly Bar[] }[], node: string): [string, number, number | null, string][] {
  return lanes.find((lane) => lane.node === node)!.bars.map((bar) => [bar.kind, bar.from, bar.to, bar.state]);
}

function moments(...all: [node: string, type: string, at: number, attempt?: number][]): NodeMoment[] {
  return all.map(([node, type, at, attempt = 0]) => ({ node, type, at, attempt }));
}

describe("from records", () => {
  test("a node waits from the end of the last node before it to its own start", () => {
    const seen = run("RUNNING", { a: done(100, 105), b: done(100, 109), c: done(112, 120) });

    const { lanes } = timelineOf(seen, new Map([["c", ["a", "b"]]]), []);

    expect(bars(lanes, "c")).toEqual([
      ["queued", 109, 112, "PENDING"],
      ["attempt", 112, 120, "SUCCEEDED"],
    ]);
  });

  test("without edges no waiting time is claimed", () => {
    const { lanes } = timelineOf(run("RUNNING", { a: done(103, 105) }), new Map(), []);

    expect(bars(lanes, "a")).toEqual([["attempt", 103, 105, "SUCCEEDED"]]);
  });

  test("a node whose turn it is waits until now, others have no bar", () => {
    const seen = run("RUNNING", { a: done(100, 105), b: pending, c: pending });
    const before = new Map([
      ["b", ["a"]],
      ["c", ["b"]],
    ]);

    const { lanes, to } = timelineOf(seen, before, []);

    expect(bars(lanes, "b")).toEqual([["queued", 105, null, "PENDING"]]);
    expect(bars(lanes, "c")).toEqual([]);
    expect(to).toBeNull();
  });

  test("bars of a run that was stopped end with it (kestra#3171)", () => {
    const killed = { state: "CANCELLED", attempt: 1, started_at: 101 };

    const { lanes, to } = timelineOf(run("CANCELLED", { a: killed, b: pending }, { end_time: 110 }), new Map([["b", []]]), []);

    expect(to).toBe(110);
    expect(bars(lanes, "a")).toEqual([["attempt", 101, 110, "CANCELLED"]]);
    expect(bars(lanes, "b")).toEqual([]);
  });

  test("no bar is longer than its run, whatever clocks say", () => {
    const { lanes } = timelineOf(run("COMPLETED", { a: done(101, 999) }, { end_time: 110 }), new Map(), []);

    expect(bars(lanes, "a")).toEqual([["attempt", 101, 110, "SUCCEEDED"]]);
  });

  test("lanes are in the order of starts, then come those whose turn it is, then the others", () => {
    const seen = run("RUNNING", { z: pending, turn: pending, b: done(105, 106), a: done(101, 102) });
    const before = new Map([
      ["z", ["turn"]],
      ["turn", []],
    ]);

    const { lanes } = timelineOf(seen, before, []);

    expect(lanes.map((lane) => lane.node)).toEqual(["a", "b", "turn", "z"]);
  });
});

describe("from events", () => {
  const seen = run("RUNNING", { a: { state: "RUNNING", attempt: 3, started_at: 120 } });

  test("each attempt has a bar, and the last one is open", () => {
    const { lanes } = timelineOf(
      seen,
      new Map(),
      moments(["a", "NODE_READY", 100], ["a", "NODE_STARTED", 101, 1], ["a", "NODE_FAILED", 105, 1], ["a", "NODE_STARTED", 110, 2], ["a", "NODE_STARTED", 120, 3]),
    );

    expect(bars(lanes, "a")).toEqual([
      ["queued", 100, 101, "PENDING"],
      ["attempt", 101, 105, "FAILED"],
      ["attempt", 110, 120, "FAILED"],
      ["attempt", 120, null, "RUNNING"],
    ]);
  });

  test("waiting for input is a bar of its own", () => {
    const { lanes } = timelineOf(
      seen,
      new Map(),
      moments(["a", "NODE_STARTED", 100, 1], ["a", "NODE_WAITING", 101], ["a", "NODE_RESUMED", 150], ["a", "NODE_SUCCEEDED", 151]),
    );

    expect(bars(lanes, "a")).toEqual([
      ["attempt", 100, 101, "RUNNING"],
      ["input", 101, 150, "WAITING"],
      ["attempt", 150, 151, "SUCCEEDED"],
    ]);
  });

  test("are needed for earlier attempts and waits only", () => {
    expect(needsEvents(seen)).toBe(true);
    expect(needsEvents(run("RUNNING", { a: done(1, 2) }))).toBe(false);
  });

  test("an event that is of no node is not kept", () => {
    expect(momentOf({ type: "EXECUTION_STARTED", occurredAt: "2026-01-01T00:00:00.000Z", payload: { attempt: 1 } })).toBeNull();
    expect(momentOf({ type: "NODE_STARTED", occurredAt: "1970-01-01T00:00:01.500Z", payload: { nodeId: "a", attempt: 2 } })).toEqual({
      node: "a",
      type: "NODE_STARTED",
      at: 1.5,
      attempt: 2,
    });
  });
});

describe("ticks", () => {
  test.each([0.004, 0.5, 1, 3.7, 59, 61, 3600, 86_400, 1e7])("of a span of %d s are few, even and within it", (span) => {
    const marks = ticks(span, 8);

    expect(marks.length).toBeGreaterThan(2);
    expect(marks.length).toBeLessThanOrEqual(9);
    expect(marks[0]).toBe(0);
    expect(marks.at(-1)!).toBeLessThanOrEqual(span * 1.0001);
  });

  test("of nothing is the start", () => {
    expect(ticks(0, 8)).toEqual([0]);
  });
});

test("180 × 30 tasks are laid out in one go (airflow#57776)", () => {
  const records: Record<string, TaskRecord> = {};
  for (let at = 0; at < 180 * 30; at++) records[`task-${at}`] = done(100 + (at % 180), 101 + (at % 180));

  const { lanes } = timelineOf(run("COMPLETED", records, { end_time: 400 }), new Map(), []);

  expect(lanes).toHaveLength(5400);
});
