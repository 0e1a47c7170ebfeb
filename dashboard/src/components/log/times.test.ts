import { expect, test } from "vitest";
import { elapsed, timeText } from "./times";

test("the time since the first line", () => {
  expect([0, 7.25, 59.9996, 3723.5, 100_000, -1.5].map(elapsed)).toEqual(["+0:00.000", "+0:07.250", "+1:00.000", "+1:02:03.500", "+27:46:40.000", "−0:01.500"]);
});

test("a line that is not there yet has no time", () => {
  expect([timeText("clock", undefined, 0), timeText("elapsed", 5, null), timeText("elapsed", 5, 3)]).toEqual(["", "", "+0:02.000"]);
  expect(timeText("clock", 0.5, null)).toMatch(/^\d\d:\d\d:00\.500$/);
});
