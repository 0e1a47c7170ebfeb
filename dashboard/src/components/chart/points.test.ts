import { expect, test } from "vitest";
import { decadesAround, drawnValues, isDecade, isolated, tickLabels } from "./points";

test("a value between gaps is isolated", () => {
  expect(isolated([1, null, 2, 3, null, 4])).toEqual([0, 5]);
  expect(isolated([null, 5, null])).toEqual([1]);
  expect(isolated([])).toEqual([]);
});

const words = { day: (at: number) => `day ${Math.floor(at / 86_400)}`, time: (at: number) => `${(at % 86_400) / 3600}h` };

test("ticks within days are times, and the day where one begins", () => {
  expect(tickLabels([79_200, 82_800, 86_400, 90_000], 3600, words)).toEqual(["22h", "23h", "day 1", "1h"]);
});

test("ticks of days are days", () => {
  expect(tickLabels([0, 172_800], 172_800, words)).toEqual(["day 0", "day 2"]);
});

test("a logarithmic axis ends at powers of ten and is never empty", () => {
  expect(decadesAround(0.02, 30)).toEqual([0.01, 100]);
  expect(decadesAround(1, 1)).toEqual([1, 10]);
});

test("powers of ten are found in spite of rounding", () => {
  expect([0.001, 0.1 * 3, 1, 10 ** -2, 50, 100].filter(isDecade)).toEqual([0.001, 1, 0.01, 100]);
});

test("what never happened has no line", () => {
  expect(drawnValues([0, 0])).toEqual([null, null]);
  expect(drawnValues([0, 1])).toEqual([0, 1]);
});
