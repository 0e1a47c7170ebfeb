// Which time series are asked for, and what is shown of them.

import type { Schemas } from "../../api/client";

export type Stats = Schemas["StatsOut"];
export type Point = Schemas["StatsPoint"];
export type Totals = Schemas["RunTotals"];

/** The length of each range, and how often it is read: a point of a month does not change within seconds. */
export const RANGES = {
  "1h": { seconds: 3600, everyMs: 10_000 },
  "6h": { seconds: 6 * 3600, everyMs: 30_000 },
  "24h": { seconds: 86_400, everyMs: 60_000 },
  "7d": { seconds: 7 * 86_400, everyMs: 300_000 },
  "30d": { seconds: 30 * 86_400, everyMs: 300_000 },
} as const;
export type Range = keyof typeof RANGES;
export const FIRST_RANGE: Range = "1h";
// Some more would be closer than lines are wide.
export const POINTS = 120;

export function rangeOf(text: string): Range {
  return Object.hasOwn(RANGES, text) ? (text as Range) : FIRST_RANGE;
}

/** The query for a range that ends now. */
export function windowOf(range: Range, now: number): { since: string; until: string; points: number } {
  const until = Math.floor(now);
  return { since: String(until - RANGES[range].seconds), until: String(until), points: POINTS };
}

/** What is drawn: without a short interval that has only begun, which would look like a decline. */
export function drawnPoints({ points, step_sec, taken_at }: Pick<Stats, "points" | "step_sec" | "taken_at">): readonly Point[] {
  const last = points.at(-1);
  const hasOnlyBegun = last !== undefined && last.at + step_sec > taken_at && step_sec < 3600 && points.length > 1;
  return hasOnlyBegun ? points.slice(0, -1) : points;
}

/** Whether the beginning of the range is so early that runs of it are removed already. */
export function isCut(stats: Stats): boolean {
  return stats.kept_since !== null && stats.kept_since > stats.since + stats.step_sec;
}

/** How many of the runs that ended have completed; null where none ended. */
export function successShare({ completed, failed, cancelled }: Pick<Totals, "completed" | "failed" | "cancelled">): number | null {
  const ended = completed + failed + cancelled;
  return ended === 0 ? null : completed / ended;
}

/** An interval as a number of days, hours or minutes. */
export function stepOf(seconds: number): { unit: "days" | "hours" | "minutes"; count: number } {
  if (seconds % 86_400 === 0) return { unit: "days", count: seconds / 86_400 };
  if (seconds % 3600 === 0) return { unit: "hours", count: seconds / 3600 };
  return { unit: "minutes", count: seconds / 60 };
}
