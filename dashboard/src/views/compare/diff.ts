// The differences of two JSON values, place by place; equal parts are only counted. Pure.

import type { Path } from "../../components/json/rows";
import { own } from "../../own";

export interface Difference {
  readonly path: Path;
  readonly kind: "changed" | "added" | "removed";
  /** Of the first value; absent when added. */
  readonly a?: unknown;
  readonly b?: unknown;
}

export interface Comparison {
  readonly differences: readonly Difference[];
  /** How many single values are equal. */
  readonly equal: number;
  /** There are more differences than are listed. */
  readonly isCut: boolean;
}

export const MAX_DIFFERENCES = 500;

/** Objects are compared by key and arrays by index; a value on one side only is one difference, whatever is inside. */
export function compare(a: unknown, b: unknown): Comparison {
  const differences: Difference[] = [];
  let equal = 0;
  let isCut = false;
  const pending: { path: Path; a: unknown; b: unknown }[] = [{ path: [], a, b }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    if (next.a === undefined && next.b === undefined) continue;
    if (differences.length >= MAX_DIFFERENCES) {
      isCut = true;
      break;
    }
    if (next.a === undefined) differences.push({ path: next.path, kind: "added", b: next.b });
    else if (next.b === undefined) differences.push({ path: next.path, kind: "removed", a: next.a });
    else if (isContainer(next.a) && isContainer(next.b) && Array.isArray(next.a) === Array.isArray(next.b)) {
      const inner = inside(next.path, next.a, next.b);
      if (inner.length === 0) equal += 1;
      pending.push(...inner.reverse());
    } else if (next.a === next.b) equal += 1;
    else differences.push({ path: next.path, kind: "changed", a: next.a, b: next.b });
  }
  return { differences, equal, isCut };
}

type Container = Readonly<Record<string | number, unknown>>;

function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

function inside(path: Path, a: Container, b: Container): { path: Path; a: unknown; b: unknown }[] {
  const keys: (string | number)[] = Array.isArray(a)
    ? Array.from({ length: Math.max(a.length, (b as unknown as unknown[]).length) }, (_, at) => at)
    : [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return keys.map((key) => ({ path: [...path, key], a: own(a, key), b: own(b, key) }));
}

/** `orders[3].total`; keys that are no words are quoted. */
export function pathText(path: Path): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(part)) text += text ? `.${part}` : part;
    else text += `[${JSON.stringify(part)}]`;
  }
  return text;
}
