import { expect, test } from "vitest";
import { COLUMNS, columnsOf, DEFAULT_COLUMNS, leastWidthOf, tracksOf } from "./columns";

test.each([
  [null, DEFAULT_COLUMNS],
  ["", DEFAULT_COLUMNS],
  ["nonsense,<b>", DEFAULT_COLUMNS],
  ["error,status", ["status", "id", "error"]],
  ["flow,removed-column", ["id", "flow"]],
  [COLUMNS.join(","), COLUMNS],
])("the stored choice %s is read in the order of the table", (stored, expected) => {
  expect(columnsOf(stored)).toEqual(expected);
});

test("each column has a width that does not depend on its rows", () => {
  expect(tracksOf(["id", "error"])).toBe("1.75rem 7.25rem minmax(12rem, 2.5fr)");
  expect(leastWidthOf(["id", "error"])).toBe(`${1.75 + 7.25 + 12 + 4 * 0.75}rem`);
});
