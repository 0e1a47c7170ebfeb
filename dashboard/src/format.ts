// Numbers, times and durations in the language of the page.

import { language } from "./language";

const remembered = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat | Intl.RelativeTimeFormat>();

function formatter<T extends Intl.NumberFormat | Intl.DateTimeFormat | Intl.RelativeTimeFormat>(key: string, make: (locale: string) => T): T {
  const full = `${language.value} ${key}`;
  let found = remembered.get(full);
  if (found === undefined) remembered.set(full, (found = make(language.value)));
  return found as T;
}

export function number(value: number, digits = 0): string {
  return formatter(`number ${digits}`, (locale) => new Intl.NumberFormat(locale, { maximumFractionDigits: digits })).format(value);
}

export function percent(share: number, digits = 0): string {
  return formatter(`percent ${digits}`, (locale) => new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: digits })).format(share);
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value: number): string {
  const power = value < 1024 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), BYTE_UNITS.length - 1);
  return `${number(value / 1024 ** power, power === 0 || value / 1024 ** power >= 100 ? 0 : 1)} ${BYTE_UNITS[power]}`;
}

function unit(value: number, name: string, digits = 0): string {
  return formatter(`unit ${name} ${digits}`, (locale) => new Intl.NumberFormat(locale, { style: "unit", unit: name, unitDisplay: "narrow", maximumFractionDigits: digits })).format(value);
}

/** `6 hours`. */
export function amount(value: number, name: "minute" | "hour" | "day"): string {
  return formatter(`amount ${name}`, (locale) => new Intl.NumberFormat(locale, { style: "unit", unit: name, unitDisplay: "long" })).format(value);
}

/** `340ms`, `4.2s`, `3m 20s`, `2h 5m`, `3d 4h`. */
export function duration(seconds: number): string {
  const rounded = Math.round(seconds);
  if (seconds < 0.9995) return unit(Math.max(0, Math.round(seconds * 1000)), "millisecond");
  if (seconds < 59.95) return unit(seconds, "second", seconds < 10 ? 2 : 1);
  if (rounded < 3600) return `${unit(Math.floor(rounded / 60), "minute")} ${unit(rounded % 60, "second")}`;
  if (rounded < 86_400) return `${unit(Math.floor(rounded / 3600), "hour")} ${unit(Math.floor((rounded % 3600) / 60), "minute")}`;
  return `${unit(Math.floor(rounded / 86_400), "day")} ${unit(Math.floor((rounded % 86_400) / 3600), "hour")}`;
}

/** A setting in words, in its greatest unit: `30 days`, `90 minutes`. */
export function longDuration(seconds: number): string {
  const [name, size] = RELATIVE_UNITS.find(([, each]) => seconds % each === 0) ?? ["second", 1];
  const format = (locale: string): Intl.NumberFormat => new Intl.NumberFormat(locale, { style: "unit", unit: name, unitDisplay: "long" });
  return formatter(`long ${name}`, format).format(seconds / size);
}

const RELATIVE_UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/** `3 minutes ago`; times are unix seconds. */
export function relative(at: number, now: number): string {
  const seconds = at - now;
  const [name, size] = RELATIVE_UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? ["second", 1];
  return formatter("relative", (locale) => new Intl.RelativeTimeFormat(locale, { numeric: "auto" })).format(Math.trunc(seconds / size), name);
}

/** A number that is no time is shown as it is: it may come from an address that was typed by hand. */
function time(at: number, key: string, options: Intl.DateTimeFormatOptions): string {
  const date = new Date(at * 1000);
  if (Number.isNaN(date.getTime())) return String(at);
  return formatter(key, (locale) => new Intl.DateTimeFormat(locale, options)).format(date);
}

export function localTime(at: number): string {
  return time(at, "local", { dateStyle: "medium", timeStyle: "medium" });
}

/** The time of day, with seconds. */
export function clockTime(at: number): string {
  return time(at, "clock", { timeStyle: "medium" });
}

/** RFC 3339 in UTC with milliseconds, as the API writes it. */
export function utcTime(at: number): string {
  const date = new Date(at * 1000);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}

/** Unix seconds of a time of the API: seconds, or RFC 3339. */
export function seconds(time: number | string | null | undefined): number | null {
  if (typeof time === "number") return time;
  if (typeof time !== "string") return null;
  const parsed = Date.parse(time);
  return Number.isNaN(parsed) ? null : parsed / 1000;
}

/** The day without its year: `Nov 19`. */
export function localDay(at: number): string {
  return time(at, "day", { month: "short", day: "numeric" });
}

/** The time of day, without seconds. */
export function localHour(at: number): string {
  return time(at, "hour", { timeStyle: "short" });
}
