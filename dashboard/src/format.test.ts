import { expect, test } from "vitest";
import { bytes, duration, localTime, longDuration, relative, seconds, utcTime } from "./format";

test.each([
  [0, "0ms"],
  [0.3404, "340ms"],
  [0.9996, "1s"],
  [4.25, "4.25s"],
  [59.96, "1m 0s"],
  [200, "3m 20s"],
  [3599.7, "1h 0m"],
  [7500, "2h 5m"],
  [273_600, "3d 4h"],
])("%d seconds are %s", (given, text) => {
  expect(duration(given)).toBe(text);
});

test.each([
  [0, "0 B"],
  [1023, "1,023 B"],
  [1536, "1.5 KiB"],
  [250 * 1024 ** 2, "250 MiB"],
])("%d bytes are %s", (given, text) => {
  expect(bytes(given)).toBe(text);
});

test("a time in the past and one ahead are relative to now", () => {
  expect(relative(1000, 1200)).toBe("3 minutes ago");
  expect(relative(1000, 1000)).toBe("now");
  expect(relative(1000, 995)).toBe("in 5 seconds");
});

test("times of the API are unix seconds or RFC 3339", () => {
  expect(seconds("2026-02-18T12:00:00.500Z")).toBe(1771416000.5);
  expect(seconds(5)).toBe(5);
  expect(seconds("soon")).toBeNull();
  expect(utcTime(1771416000.5)).toBe("2026-02-18T12:00:00.500Z");
});

test("a setting is shown in its greatest unit", () => {
  expect([2_592_000, 5400, 86_400, 45, 0].map(longDuration)).toEqual(["30 days", "90 minutes", "1 day", "45 seconds", "0 days"]);
});

test.each([NaN, Infinity, 1e20, -1e20])("%d is no time, and shown as it is", (given) => {
  expect(localTime(given)).toBe(String(given));
  expect(utcTime(given)).toBe(String(given));
});
