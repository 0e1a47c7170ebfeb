// Times and durations, with the exact time on hover and focus.

import { now } from "../clock";
import { clockTime, duration, localTime, relative, seconds, utcTime } from "../format";
import { t } from "../texts";

export type ApiTime = number | string | null | undefined;

export function exactTime(at: number): string {
  const { local, utc } = t.value.shell.time;
  return `${local}: ${localTime(at)}\n${utc}: ${utcTime(at)}`;
}

/** `3 minutes ago`. Far ones are drawn again only when they change by a minute. */
export function Time({ at, as = "relative" }: { at: ApiTime; as?: "relative" | "clock" | "local" }) {
  const time = seconds(at);
  if (time === null) return <span class="muted">–</span>;
  const text = as === "clock" ? clockTime(time) : as === "local" ? localTime(time) : relative(time, now.value);
  return (
    <time dateTime={utcTime(time)} title={exactTime(time)}>
      {text}
    </time>
  );
}

/** The time from a beginning to an end; without an end until now, ticking. */
export function Duration({ from, to, isRunning = false }: { from: ApiTime; to?: ApiTime; isRunning?: boolean }) {
  const began = seconds(from);
  const ended = seconds(to);
  if (began === null || (ended === null && !isRunning)) return <span class="muted">–</span>;
  return <span class="number">{duration(Math.max(0, (ended ?? now.value) - began))}</span>;
}
