// The columns of the table and the visitor's choice of them.

import { preferences, store, stored } from "../../storage";

export const COLUMNS = ["status", "id", "flow", "tag", "labels", "updated", "submitted", "started", "duration", "queued", "worker", "attempt", "error"] as const;
export type Column = (typeof COLUMNS)[number];

export const DEFAULT_COLUMNS: readonly Column[] = ["status", "id", "flow", "labels", "updated", "submitted", "duration", "queued", "worker", "error"];

/** The least width of each column in rem, and its share of what is left. */
const WIDTHS: Record<Column, readonly [rem: number, share: number]> = {
  status: [7.25, 0],
  id: [7.25, 0],
  flow: [8.5, 1.2],
  tag: [6, 0.6],
  labels: [9, 1],
  updated: [7.5, 0],
  submitted: [7.5, 0],
  started: [7.5, 0],
  duration: [5.25, 0],
  queued: [6, 0],
  worker: [7, 0.6],
  attempt: [4, 0],
  error: [12, 2.5],
};
const PICK_REM = 1.75;
const GAP_REM = 0.75;
export const NUMBERS: ReadonlySet<Column> = new Set(["duration", "queued", "attempt"]);

const KEY = "pyoco.runs.columns";

export function columnsOf(text: string | null): readonly Column[] {
  const names = (text ?? "").split(",");
  const known = COLUMNS.filter((column) => column === "id" || names.includes(column));
  return text === null || known.length < 2 ? DEFAULT_COLUMNS : known;
}

export function chosenColumns(): readonly Column[] {
  return columnsOf(stored(preferences, KEY));
}

export function keepColumns(columns: readonly Column[] | null): void {
  store(preferences, KEY, columns === null ? null : columns.join(","));
}

/** The columns of a grid. Rows are grids of their own, so their widths may not depend on what is in them. */
export function tracksOf(columns: readonly Column[]): string {
  return [`${PICK_REM}rem`, ...columns.map((column) => trackOf(...WIDTHS[column]))].join(" ");
}

function trackOf(rem: number, share: number): string {
  return share === 0 ? `${rem}rem` : `minmax(${rem}rem, ${share}fr)`;
}

/** The width below which the table scrolls sideways. */
export function leastWidthOf(columns: readonly Column[]): string {
  // A gap at each end too.
  return `${columns.reduce((sum, column) => sum + WIDTHS[column][0] + GAP_REM, PICK_REM + 2 * GAP_REM)}rem`;
}
