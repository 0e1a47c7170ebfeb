import { expect, test } from "vitest";
import { OVERSCAN, scrollTo, windowOf } from "./window";

test("the rows of a window do not depend on the number of rows", () => {
  for (const count of [1_000, 100_000]) {
    for (const top of [0, 17, 5_000, 34 * count - 600]) {
      const { first, end } = windowOf(top, 600, 34, count);
      expect(first * 34).toBeLessThanOrEqual(top);
      expect(end * 34).toBeGreaterThanOrEqual(Math.min(top + 600, count * 34));
      expect(end - first).toBeLessThanOrEqual(Math.ceil(600 / 34) + 1 + 2 * OVERSCAN);
    }
  }
});

test("a window behind the last row is empty, as after rows went away", () => {
  expect(windowOf(50_000, 600, 34, 10)).toEqual({ first: 10, end: 10 });
  expect(windowOf(0, 600, 34, 0)).toEqual({ first: 0, end: 0 });
  expect(windowOf(0, 0, 34, 10)).toEqual({ first: 0, end: OVERSCAN });
});

test.each([
  [0, 100, 0],
  [5, 100, 100],
  [20, 0, 20 * 34 + 34 - 600],
  [3, 102, 102],
])("row %i is brought into sight", (index, top, expected) => {
  expect(scrollTo(index, top, 600, 34)).toBe(expected);
});
