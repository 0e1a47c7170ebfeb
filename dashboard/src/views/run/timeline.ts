// The bars of a timeline: when each node waited, ran and was waited for, attempt by attempt. Pure.

import { seconds } from "../../format";
import { own } from "../../own";
import { isOver, recordsOf, type RunSnapshot, taskState } from "./model";

export type BarKind = "queued" | "attempt" | "input";

export interface Bar {
  readonly kind: BarKind;
  /** Unix seconds. */
  readonly from: number;
  /** null: until now. */
  readonly to: number | null;
  /** Of an attempt: how it ended, or RUNNING. */
  readonly state: string;
  readonly attempt: number;
}

export interface Lane {
  readonly node: string;
  readonly state: string;
  readonly progress: number | undefined;
  readonly bars: readonly Bar[];
}

export interface Timeline {
  readonly lanes: readonly Lane[];
  readonly from: number;
  /** null: the run goes on. */
  readonly to: number | null;
}

/** What an event says about when a node did what; the rest of an event is not kept. */
export interface NodeMoment {
  readonly node: string;
  readonly type: string;
  readonly at: number;
  readonly attempt: number;
}

interface WireEvent {
  readonly type: string;
  readonly occurredAt: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

export function momentOf({ type, occurredAt, payload }: WireEvent): NodeMoment | null {
  const { nodeId, attempt } = payload;
  const at = seconds(occurredAt);
  if (typeof nodeId !== "string" || at === null) return null;
  return { node: nodeId, type, at, attempt: typeof attempt === "number" ? attempt : 0 };
}

/** Whether the records do not tell the whole story: only events have earlier attempts and earlier waits. */
export function needsEvents(run: RunSnapshot): boolean {
  return Object.values(recordsOf(run)).some((record) => record.attempt > 1 || record.waiting_since !== undefined || record.answer !== undefined);
}

/** `before`: the nodes before each node. `moments`: the node events, in order; none when the records suffice. */
export function timelineOf(run: RunSnapshot, before: ReadonlyMap<string, readonly string[]>, moments: readonly NodeMoment[]): Timeline {
  const end = isOver(run) ? (run.end_time ?? null) : null;
  const began = run.start_time ?? run.submitted_at ?? run.updated_at;
  const records = recordsOf(run);
  const told = barsOfEvents(moments, end);
  const lanes = Object.entries(run.tasks).map(([node, status]): Lane => {
    const record = own(records, node);
    const state = taskState(status, record);
    const bars = told.get(node) ?? [];
    if (bars.length === 0 && record?.started_at !== undefined) {
      const queuedFrom = readyAt(before.get(node), records, began);
      if (queuedFrom !== null && queuedFrom < record.started_at) {
        bars.push({ kind: "queued", from: queuedFrom, to: record.started_at, state: "PENDING", attempt: 0 });
      }
      bars.push({ kind: "attempt", from: record.started_at, to: record.ended_at ?? end, state, attempt: record.attempt });
    } else if (bars.length === 0 && end === null && state === "PENDING") {
      const queuedFrom = readyAt(before.get(node), records, began);
      if (queuedFrom !== null) bars.push({ kind: "queued", from: queuedFrom, to: null, state, attempt: 0 });
    }
    return { node, state, progress: state === "RUNNING" ? record?.progress : undefined, bars: clipped(bars, end) };
  });
  const from = Math.min(began, ...firstTimes(lanes));
  return { lanes: sorted(lanes), from, to: end };
}

function* firstTimes(lanes: readonly Lane[]): Generator<number> {
  for (const { bars } of lanes) if (bars[0]) yield bars[0].from;
}

/** Since when a node could have run: since its predecessors ended; null while one of them has not. */
function readyAt(before: readonly string[] | undefined, records: ReturnType<typeof recordsOf>, began: number): number | null {
  // Without predecessors, or if they are not known, it is not its turn that it waits for.
  if (before === undefined || before.length === 0) return before === undefined ? null : began;
  let ready = began;
  for (const node of before) {
    const ended = own(records, node)?.ended_at ?? null;
    if (ended === null) return null;
    ready = Math.max(ready, ended);
  }
  return ready;
}

const ENDS: Readonly<Record<string, string>> = { NODE_SUCCEEDED: "SUCCEEDED", NODE_FAILED: "FAILED", NODE_CANCELED: "CANCELLED" };

/** Ends every open bar with the run: nothing runs longer than that. */
function clipped(bars: readonly Bar[], end: number | null): Bar[] {
  if (end === null) return [...bars];
  return bars.filter((bar) => bar.from <= end).map((bar) => ({ ...bar, to: Math.min(bar.to ?? end, end) }));
}

interface Draft {
  bars: Bar[];
  kind: BarKind | null;
  from: number;
  attempt: number;
}

function barsOfEvents(moments: readonly NodeMoment[], end: number | null): Map<string, Bar[]> {
  const drafts = new Map<string, Draft>();
  const close = (draft: Draft, to: number | null, state: string): void => {
    if (draft.kind) draft.bars.push({ kind: draft.kind, from: draft.from, to, state, attempt: draft.attempt });
    draft.kind = null;
  };
  const begin = (draft: Draft, kind: BarKind, at: number): void => {
    draft.kind = kind;
    draft.from = at;
  };
  for (const { node, type, at, attempt } of moments) {
    let draft = drafts.get(node);
    if (!draft) drafts.set(node, (draft = { bars: [], kind: null, from: at, attempt: 0 }));
    switch (type) {
      case "NODE_READY":
        close(draft, at, "PENDING");
        begin(draft, "queued", at);
        break;
      case "NODE_STARTED":
        // An attempt that was not ended was lost, or failed and is tried again.
        close(draft, at, draft.kind === "attempt" ? "FAILED" : "PENDING");
        begin(draft, "attempt", at);
        draft.attempt = attempt || draft.attempt + 1;
        break;
      case "NODE_WAITING":
        close(draft, at, "RUNNING");
        begin(draft, "input", at);
        break;
      case "NODE_RESUMED":
        close(draft, at, "WAITING");
        begin(draft, "attempt", at);
        break;
      default:
        if (ENDS[type]) close(draft, at, ENDS[type]);
    }
  }
  const open = { queued: "PENDING", attempt: "RUNNING", input: "WAITING" };
  for (const draft of drafts.values()) if (draft.kind) close(draft, end, open[draft.kind]);
  return new Map([...drafts].map(([node, { bars }]) => [node, bars]));
}

/** In the order of their starts; then those whose turn it is, then the others, in the order of the run. */
function sorted(lanes: readonly Lane[]): Lane[] {
  const start = (lane: Lane): number =>
    lane.bars.find((bar) => bar.kind !== "queued")?.from ?? (lane.bars.length > 0 ? Number.MAX_VALUE : Infinity);
  const keys = new Map(lanes.map((lane) => [lane, start(lane)]));
  return [...lanes].sort((one, other) => {
    const [a, b] = [keys.get(one)!, keys.get(other)!];
    return a === b ? 0 : a - b;
  });
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** Marks of an axis: seconds from the start, at most `most` of them, in steps that people count in. */
export function ticks(span: number, most: number): number[] {
  if (!(span > 0) || most < 1) return [0];
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    rough < 1
      ? [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough)!
      : (STEPS.find((one) => one >= rough) ?? Math.ceil(rough / 86_400) * 86_400);
  return Array.from({ length: Math.floor(span / step + 1e-9) + 1 }, (_, at) => at * step);
}
