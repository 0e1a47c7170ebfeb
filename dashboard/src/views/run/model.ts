// What a snapshot of a run says, in the form that its views need. Pure.

import type { Schemas } from "../../api/client";
import type { GraphEdge, GraphNode } from "../../components/graph";
import { percent } from "../../format";
import { own } from "../../own";

export type RunSnapshot = Schemas["RunSnapshot"];

/** What every tab gets: the run as it is now, and as it is shown, which may be an earlier moment. */
export interface TabProps {
  readonly run: RunSnapshot;
  readonly shown: RunSnapshot;
}

/** The record of a task, as far as the page reads it; the API may add fields. */
export interface TaskRecord {
  readonly state: string;
  readonly attempt: number;
  readonly started_at?: number;
  readonly ended_at?: number;
  readonly waiting_since?: number;
  readonly error?: string;
  readonly error_code?: string;
  readonly traceback?: string;
  readonly output?: unknown;
  readonly progress?: number;
  readonly message?: string;
  readonly prompt?: unknown;
  readonly answer?: unknown;
  readonly choice?: string;
  readonly reason?: string;
}

export function recordsOf(run: RunSnapshot): Readonly<Record<string, TaskRecord>> {
  return (run.task_records ?? {}) as Record<string, TaskRecord>;
}

export function isOver(run: RunSnapshot): boolean {
  return run.status === "COMPLETED" || run.status === "FAILED" || run.status === "CANCELLED";
}

/** Whether its worker should have reported. A run without one, such as a graph that waits for people, is quiet by nature. */
export function isSilent(run: RunSnapshot): boolean {
  return run.stale === true && Boolean(run.worker_id);
}

/** The state of a task: that of the API, or one that only its record shows. */
export function taskState(state: string, record: TaskRecord | undefined): string {
  if (record?.reason === "skipped") return "SKIPPED";
  return record?.waiting_since !== undefined && state === "RUNNING" ? "WAITING" : state;
}

/** A second line for a node, beside its state: progress and further attempts. */
export function noteOf(state: string, record: TaskRecord | undefined, words: { state: string; attempt: (count: number) => string }): string {
  const parts = [words.state];
  if (state === "RUNNING" && record?.progress !== undefined) parts.push(percent(record.progress / 100));
  if ((record?.attempt ?? 0) > 1) parts.push(words.attempt(record!.attempt));
  return parts.join(" · ");
}

/** The nodes of a run as it is now, in the states of `shown`: the same run now or at an earlier moment. */
export function nodesOf(
  run: RunSnapshot,
  shown: RunSnapshot,
  words: { state: (state: string) => string; attempt: (count: number) => string },
): GraphNode[] {
  const records = recordsOf(shown);
  return Object.keys(run.tasks).map((id) => {
    const record = own(records, id);
    const state = taskState(own(shown.tasks, id) ?? "PENDING", record);
    return { id, state, note: noteOf(state, record, { state: words.state(state), attempt: words.attempt }) };
  });
}

interface WireEdge {
  readonly from?: string;
  readonly to?: string;
  readonly when?: readonly string[];
}

/** The edges of `GET /executions/{id}?include=graph`: pairs, or objects with the choices on which they are followed. */
export function edgesOf(wire: readonly unknown[]): GraphEdge[] {
  const edges: GraphEdge[] = [];
  for (const each of wire) {
    if (Array.isArray(each)) {
      edges.push({ from: String(each[0]), to: String(each[1]) });
    } else if (typeof each === "object" && each !== null) {
      const { from, to, when } = each as WireEdge;
      edges.push({ from: String(from), to: String(to), ...(when && { label: when.join(" | ") }) });
    }
  }
  return edges;
}

/** The counts of tasks by state, the most telling first. */
export function countsOf(run: RunSnapshot): [state: string, count: number][] {
  const records = recordsOf(run);
  const counts = new Map<string, number>();
  for (const [id, state] of Object.entries(run.tasks)) {
    const shown = taskState(state, own(records, id));
    counts.set(shown, (counts.get(shown) ?? 0) + 1);
  }
  const order = ["FAILED", "RUNNING", "WAITING", "PENDING", "SUCCEEDED", "CANCELLED", "SKIPPED"];
  return [...counts].sort(([one], [other]) => order.indexOf(one) - order.indexOf(other));
}

/** The tasks that run and say how far they are. */
export function progressOf(run: RunSnapshot): { readonly task: string; readonly share: number; readonly message: string }[] {
  const records = recordsOf(run);
  return Object.entries(run.tasks).flatMap(([task, state]) => {
    const { progress, message = "" } = records[task] ?? {};
    return taskState(state, records[task]) === "RUNNING" && progress !== undefined ? [{ task, share: progress / 100, message }] : [];
  });
}

/** Whether the reasons of `explain` are shown without being asked for. */
export function needsExplanation(run: RunSnapshot): boolean {
  if (run.status === "PENDING" || run.status === "CANCELLING" || run.status === "FAILED" || run.stale === true) return true;
  return !isOver(run) && Object.values(recordsOf(run)).some((record) => record.waiting_since !== undefined);
}
