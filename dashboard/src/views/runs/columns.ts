// The columns of the table and the visitor's choice of them.

import { preferences, store, stored } from "../../storage";

export const COLUMNS = ["status", "id", "flow", "tag", "labels", "updated", "submitted", "started", "duration", "queued", "worker", "attempt", "error"] as const;
export type Column = (typeof COLUMNS)[number];

export const DEFAULT_COLUMNS: readonly Column[] = ["status", "id", "flow", "labels", "updated", "submitted", "duration", "queued", "worker", "error"];

/** Widths as tracks of a grid; the last column that can grow takes what is left. */
const TRACKS: Record<Column, string> = {
  status: "8.5rem",
  id: "9.5rem",
  flow: "minmax(9rem, 1.2fr)",
  tag: "minmax(6rem, 0.6fr)",
  labels: "minmax(8rem, 1fr)",
  updated: "8.5rem",
  submitted: "8.5rem",
  started: "8.5rem",
  duration: "6rem",
  queued: "6rem",
  worker: "minmax(8rem, 0.8fr)",
  attempt: "4.5rem",
  error: "minmax(12rem, 2fr)",
};

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

export function tracksOf(columns: readonly Column[]): string {
  return ["2.25rem", ...columns.map((column) => TRACKS[column])].join(" ");
}
