// A JSON value as rows of a tree, of which only the open parts are listed. Pure.

import { cut, visible } from "../name";

/** Where a value is: keys and indexes from the outermost value. */
export type Path = readonly (string | number)[];

export interface Row {
  readonly path: Path;
  readonly depth: number;
  /** The key or index in the value around it; null for the outermost one. */
  readonly name: string | null;
  readonly kind: "object" | "array" | "range" | "string" | "number" | "boolean" | "null";
  /** The value on one line, cut. */
  readonly text: string;
  /** How many values are inside; 0 for those that cannot be opened. */
  readonly size: number;
  readonly isOpen: boolean;
  /** The whole of a text that was cut. */
  readonly whole?: string;
}

/** Larger values are shown closed, except the outermost one. */
const OPEN_UP_TO = 20;
const OPEN_DEPTH = 3;
/** Longer arrays and objects are divided into ranges. */
export const RANGE = 200;
const TEXT_CHARS = 160;
/** How many places a search finds at most; it stops then. */
export const MAX_FOUND = 500;

/** Which values the visitor has opened and closed, by `keyOf`; the others are open when they are small. */
export type Opened = ReadonlyMap<string, boolean>;

export function keyOf(path: Path): string {
  return JSON.stringify(path);
}

interface Open {
  readonly path: Path;
  readonly depth: number;
  readonly name: string | null;
  readonly value: unknown;
  /** A part of a long value: the entries from `first` to before `end`. */
  readonly range?: { readonly first: number; readonly end: number };
}

export function rowsOf(value: unknown, opened: Opened): Row[] {
  const rows: Row[] = [];
  const pending: Open[] = [{ path: [], depth: 0, name: null, value }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const row = rowOf(next, opened);
    rows.push(row);
    if (row.isOpen) pending.push(...inside(next).reverse());
  }
  return rows;
}

function rowOf(open: Open, opened: Opened): Row {
  const { path, depth, name, value, range } = open;
  const base = { path, depth, name, size: 0, isOpen: false };
  if (range) {
    const isOpen = opened.get(rangeKey(path, range.first)) ?? false;
    return { ...base, kind: "range", name: null, text: `${range.first} … ${range.end - 1}`, size: range.end - range.first, isOpen };
  }
  if (typeof value === "string") {
    const isCut = value.length > TEXT_CHARS;
    return { ...base, kind: "string", text: `"${visible(cut(value, TEXT_CHARS))}"`, ...(isCut && { whole: value }) };
  }
  if (typeof value === "number") {
    // A greater integer was rounded when the answer was read.
    const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
    return { ...base, kind: "number", text: isRounded ? `≈ ${value}` : String(value) };
  }
  if (typeof value === "boolean") return { ...base, kind: "boolean", text: String(value) };
  if (value === null || value === undefined) return { ...base, kind: "null", text: "null" };
  const isArray = Array.isArray(value);
  const size = isArray ? value.length : Object.keys(value).length;
  const isOpen = size > 0 && (opened.get(keyOf(path)) ?? (depth === 0 || (depth < OPEN_DEPTH && size <= OPEN_UP_TO)));
  return { ...base, kind: isArray ? "array" : "object", text: isArray ? `[${size}]` : `{${size}}`, size, isOpen };
}

export function rangeKey(path: Path, first: number): string {
  return `${keyOf(path)}#${first}`;
}

/** The key under which a row is opened and closed. */
export function openKey(row: Row): string {
  return row.kind === "range" ? rangeKey(row.path, Number.parseInt(row.text, 10)) : keyOf(row.path);
}

function inside({ path, depth, value, range }: Open): Open[] {
  const size = Array.isArray(value) ? value.length : Object.keys(value as object).length;
  if (size > RANGE && !range) {
    const ranges: Open[] = [];
    for (let first = 0; first < size; first += RANGE) {
      ranges.push({ path, depth: depth + 1, name: null, value, range: { first, end: Math.min(size, first + RANGE) } });
    }
    return ranges;
  }
  const { first, end } = range ?? { first: 0, end: size };
  if (Array.isArray(value)) {
    return value.slice(first, end).map((each: unknown, at) => ({
      path: [...path, first + at],
      depth: depth + 1,
      name: String(first + at),
      value: each,
    }));
  }
  return Object.entries(value as object)
    .slice(first, end)
    .map(([key, each]: [string, unknown]) => ({ path: [...path, key], depth: depth + 1, name: key, value: each }));
}

/** The places whose key or value contains the text, in order; no more than MAX_FOUND. */
export function search(value: unknown, sought: string): Path[] {
  const lower = sought.toLowerCase();
  const found: Path[] = [];
  const pending: { path: Path; value: unknown }[] = [{ path: [], value }];
  for (let next = pending.pop(); next && found.length < MAX_FOUND; next = pending.pop()) {
    const name = next.path.at(-1);
    const isContainer = typeof next.value === "object" && next.value !== null;
    const text = isContainer ? "" : String(next.value);
    if (text.toLowerCase().includes(lower) || (typeof name === "string" && name.toLowerCase().includes(lower))) found.push(next.path);
    if (!isContainer) continue;
    const entries: [string | number, unknown][] = Array.isArray(next.value)
      ? next.value.map((each: unknown, at): [number, unknown] => [at, each])
      : Object.entries(next.value as object);
    for (const [key, each] of entries.reverse()) pending.push({ path: [...next.path, key], value: each });
  }
  return found;
}

/** What has to be open so that the place is listed. */
export function opening(value: unknown, path: Path, opened: Opened): Opened {
  const all = new Map(opened);
  let outer = value;
  for (let depth = 0; depth < path.length; depth++) {
    all.set(keyOf(path.slice(0, depth)), true);
    const name = path[depth]!;
    if (typeof outer !== "object" || outer === null) break;
    const keys = Array.isArray(outer) ? null : Object.keys(outer);
    const at = typeof name === "number" ? name : keys!.indexOf(name);
    if ((keys?.length ?? (outer as unknown[]).length) > RANGE) {
      all.set(rangeKey(path.slice(0, depth), at - (at % RANGE)), true);
    }
    outer = (outer as Record<string | number, unknown>)[name];
  }
  return all;
}
