// The time of a line in the width of a column.

import type { Times } from "./row";

export function timeText(times: Times, at: number | undefined, startedAt: number | null): string {
  if (at === undefined) return "";
  if (times === "elapsed") return startedAt === null ? "" : elapsed(at - startedAt);
  const date = new Date(at * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${three(date.getMilliseconds())}`;
}

/** `+0:07.250`, `+2:03:04.000`; clocks of workers may differ, so it can be negative. */
export function elapsed(seconds: number): string {
  const ms = Math.round(Math.abs(seconds) * 1000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const hours = Math.floor(ms / 3_600_000);
  const sign = seconds < 0 && ms > 0 ? "−" : "+";
  return `${sign}${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(Math.floor(ms / 1000) % 60)}.${three(ms % 1000)}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

function three(value: number): string {
  return String(value).padStart(3, "0");
}
