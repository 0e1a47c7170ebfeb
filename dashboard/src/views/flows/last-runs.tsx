// The last runs of a flow as marks, the newest at the right.

import type { Schemas } from "../../api/client";
import { statusMark, statusName, statusText } from "../../components/status";
import { hashOf } from "../../router";
import { t } from "../../texts";

export function LastRuns({ runs }: { runs: readonly Schemas["NamedRunOut"][] }) {
  if (runs.length === 0) return <span class="muted">{t.value.flows.noRuns}</span>;
  return (
    <ul class="last-runs">
      {[...runs].reverse().map(({ run_id, status }) => {
        const label = `${statusText(status)} ${run_id}`;
        return (
          <li key={run_id}>
            <a class={`run-mark status-${statusName(status).toLowerCase()}`} href={hashOf(["runs", run_id])} title={label} aria-label={label}>
              <span aria-hidden="true">{statusMark(status)}</span>
            </a>
          </li>
        );
      })}
    </ul>
  );
}
