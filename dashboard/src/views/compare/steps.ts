// The tasks of two runs side by side. Pure.

import { own } from "../../own";
import { isOver, recordsOf, type RunSnapshot, taskState } from "../run/model";

export interface Side {
  readonly state: string;
  /** null: it has not run to an end. */
  readonly seconds: number | null;
}

export interface Step {
  readonly name: string;
  /** null: the run has no such task. */
  readonly a: Side | null;
  readonly b: Side | null;
  /** How much longer it took in the second run; null where one of them has no duration. */
  readonly change: number | null;
}

/** In the order of the first run; tasks that only the second one has come last. */
export function stepsOf(a: RunSnapshot, b: RunSnapshot): Step[] {
  const names = new Set([...Object.keys(a.tasks), ...Object.keys(b.tasks)]);
  return [...names].map((name) => {
    const [one, other] = [sideOf(a, name), sideOf(b, name)];
    const isTimed = one?.seconds != null && other?.seconds != null;
    return { name, a: one, b: other, change: isTimed ? other!.seconds! - one!.seconds! : null };
  });
}

/** The largest changes first; those without one last, in their order. */
export function byChange(steps: readonly Step[]): Step[] {
  return [...steps].sort((one, other) => Math.abs(other.change ?? -1) - Math.abs(one.change ?? -1) || 0);
}

function sideOf(run: RunSnapshot, name: string): Side | null {
  const status = own(run.tasks, name);
  if (status === undefined) return null;
  const record = own(recordsOf(run), name);
  const end = record?.ended_at ?? (isOver(run) ? run.end_time : null);
  const seconds = record?.started_at !== undefined && end != null ? Math.max(0, end - record.started_at) : null;
  return { state: taskState(status, record), seconds };
}

/** The longest duration, to which all bars relate. */
export function longest(steps: readonly Step[]): number {
  let most = 0;
  for (const { a, b } of steps) most = Math.max(most, a?.seconds ?? 0, b?.seconds ?? 0);
  return most;
}

interface Candidate {
  readonly run_id: string;
  readonly submitted_at?: number | null;
}

/** Of a page of runs of a flow, the one that was submitted last before the given one. */
export function previousOf<T extends Candidate>(run: Candidate, others: readonly T[]): T | undefined {
  const before = others.filter((other) => other.run_id !== run.run_id && (other.submitted_at ?? 0) <= (run.submitted_at ?? 0));
  return before.sort((one, other) => (other.submitted_at ?? 0) - (one.submitted_at ?? 0))[0];
}
