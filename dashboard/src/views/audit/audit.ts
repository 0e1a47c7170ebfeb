// Filters of the audit trail, and where its resources are found on this page.

import { hashOf } from "../../router";

/** As docs/how-to/find-out-who-did-what.md lists them. */
export const ACTIONS = [
  "run.create",
  "run.start",
  "run.cancel",
  "run.complete",
  "run.fail",
  "run.archive",
  "run.tag_add",
  "run.tag_remove",
  "node.start",
  "node.wait",
  "node.resume",
  "node.succeed",
  "node.fail",
  "node.stop",
  "api_key.create",
  "api_key.revoke",
  "wheel.upload",
  "wheel.delete",
  "graph.put",
  "worker.hide",
  "worker.show",
  "strategy.put",
  "strategy.delete",
  "strategy.import",
] as const;

export interface AuditFilters {
  actor?: string;
  action?: string;
  resource?: string;
  request_id?: string;
  since?: string;
  until?: string;
}

const NAMES = ["actor", "action", "resource", "request_id", "since", "until"] as const;

/** The query of the API. Times of the page are local and have no zone. */
export function auditFilters(value: (name: string) => string): AuditFilters {
  const filters: AuditFilters = {};
  for (const name of NAMES) {
    const given = value(name);
    if (given === "") continue;
    if (name !== "since" && name !== "until") filters[name] = given;
    else if (!Number.isNaN(Date.parse(given))) filters[name] = new Date(given).toISOString();
  }
  return filters;
}

/** The place of a resource on this page; null where it has none. */
export function placeOf(kind: string, id: string): string | null {
  switch (kind) {
    case "run":
      return hashOf(["runs", id]);
    case "wheel":
      return hashOf(["wheels"], { show: "history", wheel: id });
    case "worker":
      return hashOf(["workers"], { which: "all", hidden: "1", worker: id });
    case "graph":
      return hashOf(["runs"], { flow: id });
    case "strategy":
      return id === "*" ? hashOf(["strategies"]) : hashOf(["strategies", "strategy", id]);
    default:
      return null;
  }
}

/** The facts of a record in one line each: `flow: train`. */
export function factsOf(detail: Readonly<Record<string, unknown>>): readonly (readonly [name: string, value: string])[] {
  return Object.entries(detail).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)] as const);
}
