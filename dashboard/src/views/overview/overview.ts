// What the overview derives from the answer of the gateway.

import type { Schemas } from "../../api/client";

export type Overview = Schemas["OverviewOut"];
export type Queue = Schemas["QueueOut"];
export type WorkerCounts = Schemas["WorkerCounts"];
export type RunStatus = keyof Schemas["RunCounts"];

/** In the order of a run's life. */
export const TILES = ["PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED"] as const satisfies readonly RunStatus[];
export const WORKER_STATES = ["RUNNING", "IDLE", "DISCONNECTED", "STOPPED_GRACEFUL"] as const satisfies readonly (keyof WorkerCounts)[];

/** Whether nothing was ever submitted, or everything is removed already. */
export function isFresh({ runs }: Overview): boolean {
  return TILES.every((status) => runs[status] === 0);
}

/** Whether runs wait for a tag that no worker serves; unknown workers are no reason to warn. */
export function isUnserved({ pending, workers }: Queue): boolean {
  return pending > 0 && workers === 0;
}
