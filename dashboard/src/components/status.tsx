// A status as a mark, a colour and a word: the colour is never the only signal.

import { t } from "../texts";

type StatusName = keyof typeof t.value.shell.statuses;

const MARKS: Record<StatusName, string> = {
  PENDING: "○",
  IDLE: "○",
  READY: "◔",
  RUNNING: "▶",
  WAITING: "‖",
  CANCELLING: "◪",
  COMPLETED: "✓",
  SUCCEEDED: "✓",
  FAILED: "✕",
  CANCELLED: "⊘",
  SKIPPED: "↷",
  STOPPED_GRACEFUL: "■",
  DISCONNECTED: "⚠",
  UNKNOWN: "?",
};

/** `CANCELED` of the executions API is the `CANCELLED` of runs; a value that is not known yet is shown as it is. */
export function statusName(status: string): StatusName {
  const name = status.toUpperCase() === "CANCELED" ? "CANCELLED" : status.toUpperCase();
  return name in MARKS ? (name as StatusName) : "UNKNOWN";
}

export function statusText(status: string): string {
  const name = statusName(status);
  return name === "UNKNOWN" && status ? status : t.value.shell.statuses[name];
}

export function statusMark(status: string): string {
  return MARKS[statusName(status)];
}

export function Status({ status, isStale = false }: { status: string; isStale?: boolean }) {
  return (
    <span class={`status status-${statusName(status).toLowerCase()}${isStale ? " status-stale" : ""}`}>
      <span class="status-mark" aria-hidden="true">
        {statusMark(status)}
      </span>
      {statusText(status)}
    </span>
  );
}

export function isFinished(status: string): boolean {
  return ["COMPLETED", "FAILED", "CANCELLED", "CANCELED"].includes(status.toUpperCase());
}
