import { expect, test } from "vitest";
import { drawnPoints, isCut, rangeOf, stepOf, successShare, windowOf, type Point, type Stats } from "./stats";

test("an unknown range is the first one", () => {
  expect([rangeOf("7d"), rangeOf(""), rangeOf("toString"), rangeOf("9d")]).toEqual(["7d", "1h", "1h", "1h"]);
});

test("a range ends now", () => {
  expect(windowOf("24h", 1_000_000.7)).toEqual({ since: "913600", until: "1000000", points: 120 });
});

test("a range is cut when its first whole interval begins before the runs that are kept", () => {
  const stats = (kept_since: number | null) => ({ since: 1000, step_sec: 60, kept_since }) as Stats;

  expect([isCut(stats(null)), isCut(stats(500)), isCut(stats(1060)), isCut(stats(1061))]).toEqual([false, false, false, true]);
});

test("the share of success is that of the runs that ended", () => {
  expect(successShare({ completed: 3, failed: 1, cancelled: 0 })).toBe(0.75);
  expect(successShare({ completed: 0, failed: 0, cancelled: 0 })).toBeNull();
});

test("a step is a whole number of its greatest unit", () => {
  expect([60, 900, 10_800, 86_400].map(stepOf)).toEqual([
    { unit: "minutes", count: 1 },
    { unit: "minutes", count: 15 },
    { unit: "hours", count: 3 },
    { unit: "days", count: 1 },
  ]);
});

test("a short interval that has only begun is not drawn", () => {
  const points = [{ at: 0 }, { at: 60 }] as Point[];

  expect(drawnPoints({ points, step_sec: 60, taken_at: 90 })).toHaveLength(1);
  expect(drawnPoints({ points, step_sec: 60, taken_at: 120 })).toHaveLength(2);
  expect(drawnPoints({ points: [{ at: 0 }, { at: 3600 }] as Point[], step_sec: 3600, taken_at: 3700 })).toHaveLength(2);
});
