// What the views of flows derive from the answers of the gateway.

import type { Schemas } from "../../api/client";
import { pythonText, quoted, type Calls } from "../../components/call-menu";
import { successShare } from "../../components/run-charts/stats";

export type Flow = Schemas["FlowListed"];
export type FlowDetails = Schemas["FlowOut"];
export type FlowVersion = Schemas["FlowVersionOut"];
export type Param = Schemas["FlowParam"];

export interface FlowsQuery {
  readonly q?: string;
  readonly tag?: string;
}

export function flowsQuery(prefix: string, tag: string): FlowsQuery {
  return { ...(prefix && { q: prefix }), ...(tag && { tag }) };
}

/** The share of completed runs among the last ones that ended; null where none ended. */
export function recentShare({ statuses }: Flow["recent"]): number | null {
  return successShare({ completed: statuses["COMPLETED"] ?? 0, failed: statuses["FAILED"] ?? 0, cancelled: statuses["CANCELLED"] ?? 0 });
}

export function flowCalls(name: string): Calls {
  return { path: `/flows/${encodeURIComponent(name)}`, client: `graph -- ${quoted(name)}`, python: `print(client.get_flow(${pythonText(name)}))` };
}

// A value that a reader replaces.
const VALUE = "…";

/** How to submit a run of the flow, with a place for each required parameter. */
export function submitCalls(name: string, params: readonly Param[] | null): Calls {
  const required = (params ?? []).filter((param) => param.required).map((param) => param.name);
  const values = Object.fromEntries(required.map((each) => [each, VALUE]));
  const words = required.map((each) => quoted(`${each}=${VALUE}`));
  const python = required.map((each) => `${pythonText(each)}: ${pythonText(VALUE)}`);
  return {
    path: "/runs",
    method: "POST",
    body: { flow_name: name, params: values },
    client: ["submit", "--flow-name", quoted(name), ...words].join(" "),
    python: `run_id = client.submit_run(${pythonText(name)}${required.length > 0 ? `, {${python.join(", ")}}` : ""})["run_id"]`,
  };
}
