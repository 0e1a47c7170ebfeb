// Pages of the events of a run.

import { api, body, type Schemas } from "../../api/client";

export type RunEvent = Schemas["EventOut"];

export interface EventsQuery {
  readonly limit: number;
  readonly order?: "asc" | "desc";
  readonly nodeId?: string;
  readonly cursor?: string;
}

export async function eventsPage(runId: string, query: EventsQuery, signal: AbortSignal): Promise<Schemas["EventList"]> {
  // The same address also answers as a stream, which the type of its JSON cannot know.
  return (await body(api.GET("/executions/{executionId}/events", { params: { path: { executionId: runId }, query }, signal }))) as Schemas["EventList"];
}

/** Where an event is, as a cursor to read on behind it. */
export function placeOf(event: RunEvent): string {
  return `${event.version}.${event.eventId.split(".").at(-1)}`;
}
