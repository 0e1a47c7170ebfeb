// The filters of the list: in the address of the page, as a query of the API, and as equivalent calls.

import type { Calls } from "../../components/call-menu";
import { pythonText, quoted } from "../../components/call-menu";
import type { QueryValues } from "../../router";

export const STATUSES = ["PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED"] as const;
export type RunStatus = (typeof STATUSES)[number];

/** The presets of the time range, in the order in which they are offered. */
export const PRESETS = ["15m", "1h", "6h", "24h", "7d", "30d"] as const;
export const MAX_LABELS = 8;
export const MAX_ERROR_CHARS = 200;

export interface Filters {
  readonly status?: string | undefined;
  readonly flow?: string | undefined;
  readonly tag?: string | undefined;
  readonly labels: readonly string[];
  /** The time until now in which runs were submitted: `15m`, `6h`, `7d`; instead of the exact times. */
  readonly since?: string | undefined;
  readonly after?: string | undefined;
  readonly before?: string | undefined;
  readonly idPrefix?: string | undefined;
  /** The digest of their flow.yaml. */
  readonly yaml?: string | undefined;
  readonly error?: string | undefined;
}

export const NO_FILTERS: Filters = { labels: [] };

/** One filter that can be removed; each label is one. */
export type Chip =
  | { readonly kind: TextKind; readonly value: string }
  | { readonly kind: "since"; readonly value: string }
  | { readonly kind: "range"; readonly after: string | undefined; readonly before: string | undefined };

export type TextKind = "status" | "flow" | "tag" | "label" | "idPrefix" | "yaml" | "error";

/** The names are those of the API, so that a query of one fits the other; `since` is the page's own. */
export function filtersOf(query: URLSearchParams): Filters {
  const one = (name: string): string | undefined => query.get(name) || undefined;
  const since = one("since");
  const isPreset = since !== undefined && secondsOf(since) !== null;
  return {
    status: one("status")?.toUpperCase(),
    flow: one("flow"),
    tag: one("tag") ?? one("queue"),
    labels: [...new Set(query.getAll("tags").filter(Boolean))].slice(0, MAX_LABELS),
    since: isPreset ? since : undefined,
    after: isPreset ? undefined : one("submitted_after"),
    before: isPreset ? undefined : one("submitted_before"),
    idPrefix: one("id_prefix")?.toLowerCase(),
    yaml: one("workflow_yaml_sha256")?.toLowerCase(),
    error: one("error")?.slice(0, MAX_ERROR_CHARS),
  };
}

export function queryOf(filters: Filters): QueryValues {
  return {
    status: filters.status,
    flow: filters.flow,
    tag: filters.tag,
    tags: filters.labels,
    since: filters.since,
    submitted_after: filters.after,
    submitted_before: filters.before,
    id_prefix: filters.idPrefix,
    workflow_yaml_sha256: filters.yaml,
    error: filters.error,
  };
}

const UNITS = { m: { name: "minute", sec: 60 }, h: { name: "hour", sec: 3600 }, d: { name: "day", sec: 86_400 } } as const;

/** The length of a preset, as a number and its unit; null for any other text. */
export function lengthOf(since: string): { value: number; unit: (typeof UNITS)[keyof typeof UNITS] } | null {
  const found = /^([1-9][0-9]{0,4})([mhd])$/.exec(since);
  return found ? { value: Number(found[1]), unit: UNITS[found[2] as keyof typeof UNITS] } : null;
}

/** The same in seconds. */
export function secondsOf(since: string): number | null {
  const length = lengthOf(since);
  return length && length.value * length.unit.sec;
}

export interface ApiQuery {
  readonly status?: RunStatus;
  readonly flow?: string;
  readonly tag?: string;
  readonly tags?: string[];
  readonly submitted_after?: string;
  readonly submitted_before?: string;
  readonly id_prefix?: string;
  readonly workflow_yaml_sha256?: string;
  readonly error?: string;
}

/** The query of the API. A preset ends at `now`: all pages of a list must have the same one, or their cursors are refused. */
export function apiQuery(filters: Filters, now: number): ApiQuery {
  const length = filters.since === undefined ? null : secondsOf(filters.since);
  const after = length === null ? filters.after : (now - length).toFixed(3);
  const given = {
    status: filters.status as RunStatus | undefined,
    flow: filters.flow,
    tag: filters.tag,
    tags: filters.labels.length > 0 ? [...filters.labels] : undefined,
    submitted_after: after,
    submitted_before: filters.before,
    id_prefix: filters.idPrefix,
    workflow_yaml_sha256: filters.yaml,
    error: filters.error,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as ApiQuery;
}

export function chipsOf(filters: Filters): Chip[] {
  const chips: Chip[] = [];
  for (const kind of ["status", "flow", "tag"] as const) {
    const value = filters[kind];
    if (value !== undefined) chips.push({ kind, value });
  }
  for (const value of filters.labels) chips.push({ kind: "label", value });
  if (filters.since !== undefined) chips.push({ kind: "since", value: filters.since });
  else if (filters.after !== undefined || filters.before !== undefined) chips.push({ kind: "range", after: filters.after, before: filters.before });
  for (const kind of ["idPrefix", "yaml", "error"] as const) {
    const value = filters[kind];
    if (value !== undefined) chips.push({ kind, value });
  }
  return chips;
}

export function without(filters: Filters, chip: Chip): Filters {
  switch (chip.kind) {
    case "label":
      return { ...filters, labels: filters.labels.filter((label) => label !== chip.value) };
    case "range":
      return { ...filters, after: undefined, before: undefined };
    default:
      return { ...filters, [chip.kind]: undefined };
  }
}

export function withText(filters: Filters, kind: TextKind, value: string): Filters {
  if (kind === "label") return { ...filters, labels: [...new Set([...filters.labels, value])].slice(0, MAX_LABELS) };
  return { ...filters, [kind]: kind === "error" ? value.slice(0, MAX_ERROR_CHARS) : value };
}

export interface Suggestion {
  readonly kind: TextKind;
  readonly value: string;
  /** How many runs have the label. */
  readonly runs?: number;
}

export interface Known {
  readonly flows: readonly string[];
  readonly tags: readonly string[];
  readonly labels: readonly { readonly name: string; readonly runs: number }[];
  /** The words for statuses in the language of the page. */
  readonly statusText: (status: RunStatus) => string;
}

const MAX_EACH = 6;
const ID_PREFIX = /^[0-9a-f-]{4,36}$/i;
const DIGEST = /^[0-9a-f]{64}$/i;
const TAG = /^[A-Za-z0-9_-]{1,64}$/;

/** What a typed text can mean, the known values first. */
export function suggestionsOf(typed: string, filters: Filters, known: Known): Suggestion[] {
  const text = typed.trim();
  const folded = text.toLowerCase();
  const fits = (name: string): boolean => name.toLowerCase().includes(folded);
  const statuses = STATUSES.filter((status) => status !== filters.status && (fits(status) || fits(known.statusText(status))));
  const found: Suggestion[] = statuses.map((value) => ({ kind: "status", value }));
  const named = (kind: "flow" | "tag", names: readonly string[]): Suggestion[] =>
    names.filter((name) => fits(name) && filters[kind] !== name).slice(0, MAX_EACH).map((value) => ({ kind, value }));
  found.push(...named("flow", known.flows));
  const labels = known.labels.filter((label) => fits(label.name) && !filters.labels.includes(label.name)).slice(0, MAX_EACH);
  if (filters.labels.length < MAX_LABELS) {
    found.push(...labels.map((label): Suggestion => ({ kind: "label", value: label.name, runs: label.runs })));
  }
  found.push(...named("tag", known.tags));
  if (ID_PREFIX.test(text)) found.push({ kind: "idPrefix", value: folded });
  if (DIGEST.test(text)) found.push({ kind: "yaml", value: folded });
  if (text === "") return found;
  found.push({ kind: "error", value: text.slice(0, MAX_ERROR_CHARS) });
  // No worker may announce the flow or serve the tag of stored runs any more.
  if (!known.flows.includes(text)) found.push({ kind: "flow", value: text });
  if (!known.labels.some((label) => label.name === text) && filters.labels.length < MAX_LABELS) found.push({ kind: "label", value: text });
  if (!known.tags.includes(text) && TAG.test(text)) found.push({ kind: "tag", value: text });
  return found;
}

/** What a typed text means without a choice: a name that is known, an id, else a text in errors. */
export function meaningOf(typed: string, filters: Filters, known: Known): Suggestion | undefined {
  const text = typed.trim().toLowerCase();
  const found = suggestionsOf(typed, filters, known);
  const isKnown: Record<TextKind, (value: string) => boolean> = {
    status: () => true,
    flow: (value) => known.flows.includes(value),
    label: (value) => known.labels.some((label) => label.name === value),
    tag: (value) => known.tags.includes(value),
    idPrefix: () => text.length >= 8,
    yaml: () => true,
    error: () => true,
  };
  const isNamed = (each: Suggestion): boolean => each.kind === "error" || each.value.toLowerCase() === text;
  const isStatus = (each: Suggestion): boolean => each.kind === "status" && known.statusText(each.value as RunStatus).toLowerCase() === text;
  return text === "" ? undefined : found.find((each) => isStatus(each) || (isNamed(each) && isKnown[each.kind](each.value)));
}

/** Whether `--tags` takes it as one label: it splits at commas, and trims. */
function isOption(label: string): boolean {
  return !label.includes(",") && label.trim() === label;
}

/** The same list elsewhere. */
export function callsOf(filters: Filters, now: number): Calls {
  const query = apiQuery(filters, now);
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const one of Array.isArray(value) ? value : [value as string]) params.append(name, one);
  params.append("cursor", "");
  const words = ["list"];
  const option = (name: string, value: string | undefined): void => {
    if (value !== undefined) words.push(name, quoted(value));
  };
  option("--status", query.status);
  option("--flow", query.flow);
  option("--tag", query.tag);
  const labels = query.tags ?? [];
  for (const label of labels) option("--tags", label);
  option("--since", filters.since ?? query.submitted_after);
  option("--until", query.submitted_before);
  option("--id-prefix", query.id_prefix);
  option("--sha256", query.workflow_yaml_sha256);
  option("--error", query.error);
  const named = Object.entries(query).map(([name, value]) => `${name}=${Array.isArray(value) ? `[${value.map(pythonText).join(", ")}]` : pythonText(value as string)}`);
  return {
    path: `/runs?${params.toString()}`,
    ...(labels.every(isOption) && { client: [...words, "--output", "table"].join(" ") }),
    python: `for run in client.iter_runs(${named.join(", ")}):\n    print(run["run_id"], run["status"])`,
  };
}
