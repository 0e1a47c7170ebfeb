import { describe, expect, test } from "vitest";

import { MAX_FOUND, openKey, opening, RANGE, rowsOf, search } from "./rows";

const none = new Map<string, boolean>();

function texts(value: unknown, opened = none): string[] {
  return rowsOf(value, opened).map((row) => `${"  ".repeat(row.depth)}${row.name === null ? "" : `${row.name}: `}${row.text}`);
}

test("small values are open, and listed in their order", () => {
  expect(texts({ b: 1, a: [true, null, "x"], c: {} })).toEqual([
    "{3}",
    "  b: 1",
    "  a: [3]",
    "    0: true",
    "    1: null",
    '    2: "x"',
    "  c: {0}",
  ]);
});

test("a large inner value is closed until it is opened", () => {
  const value = { list: Array.from({ length: 30 }, (_, at) => at) };
  const closed = rowsOf(value, none);

  expect(closed).toHaveLength(2);
  expect(rowsOf(value, new Map([[openKey(closed[1]!), true]]))).toHaveLength(32);
});

test("a huge array is listed by ranges", () => {
  const value = Array.from({ length: 1000 * RANGE + 1 }, (_, at) => at);
  const rows = rowsOf(value, none);

  expect(rows).toHaveLength(1 + 1001);
  expect(rows.at(-1)!.size).toBe(1);
  const open = rowsOf(value, new Map([[openKey(rows[2]!), true]]));
  expect(open).toHaveLength(rows.length + RANGE);
  expect(open[3]!.name).toBe(String(RANGE));
});

test("values of any depth are listed without recursion", () => {
  let value: unknown = "deep";
  const opened = new Map<string, boolean>();
  for (let depth = 0; depth < 3000; depth++) value = [value];
  let path: number[] = [];
  for (let depth = 0; depth < 50; depth++) {
    opened.set(JSON.stringify(path), true);
    path = [...path, 0];
  }

  expect(rowsOf(value, opened)).toHaveLength(51);
  expect(search(value, "deep")).toHaveLength(1);
});

test("long texts are cut and keep their whole; control characters are visible", () => {
  const [row] = rowsOf("\u202e" + "x".repeat(1_000_000), none);

  expect(row!.text.length).toBeLessThan(300);
  expect(row!.text).toContain("U+202E");
  expect(row!.whole).toHaveLength(1_000_001);
});

test("keys of objects are data: __proto__ and the like are listed", () => {
  const value: unknown = JSON.parse('{"__proto__": {"a": 1}, "constructor": 2}');

  expect(texts(value)).toEqual(["{2}", "  __proto__: {1}", "    a: 1", "  constructor: 2"]);
});

describe("searching", () => {
  const value = { name: "Ann", rows: Array.from({ length: 500 }, (_, at) => ({ id: at, note: at === 417 ? "The Needle" : "" })) };

  test("finds keys and values in any case", () => {
    expect(search(value, "needle")).toEqual([["rows", 417, "note"]]);
    expect(search(value, "NAME")).toEqual([["name"]]);
    expect(search(value, "absent")).toEqual([]);
  });

  test("stops at a bound", () => {
    expect(search(value, "id")).toHaveLength(MAX_FOUND);
  });

  test("a found place can be listed", () => {
    const path = search(value, "needle")[0]!;

    const rows = rowsOf(value, opening(value, path, none));

    expect(rows.some((row) => JSON.stringify(row.path) === JSON.stringify(path))).toBe(true);
    expect(rows.length).toBeLessThan(2 * RANGE);
  });
});

test("a number that was rounded when it was read is marked", () => {
  const texts = rowsOf(JSON.parse("[9007199254740993, 9007199254740991, 0.5]"), new Map()).map(({ text }) => text);

  expect(texts.slice(1)).toEqual(["≈ 9007199254740992", "9007199254740991", "0.5"]);
});
