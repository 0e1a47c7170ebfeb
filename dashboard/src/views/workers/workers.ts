// What the table of workers derives from their records.

import type { Schemas } from "../../api/client";

export type Worker = Schemas["Worker"];

export const MOST_WORKERS = 500;
const STATES = ["RUNNING", "IDLE", "STOPPED_GRACEFUL", "DISCONNECTED"] as const;
type State = (typeof STATES)[number];

export interface WorkersQuery {
  scope?: "all";
  state?: State;
  include_hidden?: true;
  limit: number;
}

/** The query of the API for the filters of the page; `which` is a scope or a state. */
export function workersQuery(which: string, includeHidden: boolean): WorkersQuery {
  const state = STATES.find((each) => each === which);
  return { ...(state ? { state } : which === "all" && { scope: "all" }), ...(includeHidden && { include_hidden: true }), limit: MOST_WORKERS };
}

/** Whether all words are in the worker's name, tags, flows or user, in any case. */
export function matches(worker: Worker, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const texts = [worker.worker_id, ...worker.tags, ...worker.flows, worker.runner_user ?? ""].map((each) => each.toLowerCase());
  return words.every((word) => texts.some((each) => each.includes(word)));
}

export interface LeftOutWheel {
  readonly name: string;
  readonly reason: string;
}

export interface WheelSync {
  readonly state: "off" | "ok" | "partial" | "failed";
  readonly installedCount: number;
  readonly failedCount: number;
  readonly installed: readonly string[];
  readonly failed: readonly LeftOutWheel[];
  readonly skipped: readonly LeftOutWheel[];
  readonly error: string;
  readonly at: number | null;
}

const OFF: WheelSync = { state: "off", installedCount: 0, failedCount: 0, installed: [], failed: [], skipped: [], error: "", at: null };
const RANKS = ["off", "ok", "partial", "failed"] as const;

/** The report of a worker and those of its tenants as one: the worst state, all wheels. */
export function wheelSync(worker: Worker): WheelSync {
  const report = record(worker.wheel_sync);
  if (report === null) return OFF;
  const tenants = Object.values(record(report["tenants"]) ?? {});
  return [report, ...tenants].map(oneSync).reduce(joined, OFF);
}

function oneSync(given: unknown): WheelSync {
  const report = record(given) ?? {};
  const result = report["last_result"];
  return {
    state: result === "ok" || result === "partial" || result === "failed" ? result : "off",
    installedCount: count(report["installed_count"]),
    failedCount: count(report["failed_count"]),
    installed: list(report["installed"]).map((each) => text(each["wheel_name"])),
    failed: list(report["failed"]).map(leftOut),
    skipped: list(report["skipped"]).map(leftOut),
    error: text(report["error"]),
    at: typeof report["last_sync_at"] === "number" ? report["last_sync_at"] : null,
  };
}

function joined(one: WheelSync, other: WheelSync): WheelSync {
  return {
    state: RANKS.indexOf(one.state) >= RANKS.indexOf(other.state) ? one.state : other.state,
    installedCount: one.installedCount + other.installedCount,
    failedCount: one.failedCount + other.failedCount,
    installed: [...one.installed, ...other.installed],
    failed: [...one.failed, ...other.failed],
    skipped: [...one.skipped, ...other.skipped],
    error: one.error || other.error,
    at: one.at === null || other.at === null ? (one.at ?? other.at) : Math.max(one.at, other.at),
  };
}

function leftOut(wheel: Record<string, unknown>): LeftOutWheel {
  return { name: text(wheel["wheel_name"]), reason: text(wheel["reason"]) };
}

function record(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
}

function list(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.map((each) => record(each) ?? {}) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function count(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
