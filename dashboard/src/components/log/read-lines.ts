// Lines of a run's log from the gateway.

import { api, body, type Schemas } from "../../api/client";
import type { paths } from "../../api/schema";

export type LogQuery = NonNullable<paths["/runs/{run_id}/logs"]["get"]["parameters"]["query"]>;
export type LogPage = Schemas["RunLogs"];

export async function readLines(runId: string, query: LogQuery, signal?: AbortSignal): Promise<LogPage> {
  const answer = await body(api.GET("/runs/{run_id}/logs", { params: { path: { run_id: runId }, query }, ...(signal && { signal }) }));
  // The document has a second form for this address, plain text, which was not asked for.
  return answer as LogPage;
}
