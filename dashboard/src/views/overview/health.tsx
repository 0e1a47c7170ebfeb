// Whether the gateway accepts runs and how it stores them.

import { Notice } from "../../components/notice";
import { longDuration, number } from "../../format";
import { t } from "../../texts";
import type { Overview } from "./overview";

// An upper bound that is above zero for moments: fewer are no news.
const MANY_BEHIND = 100;

export function Health({ overview }: { overview: Overview }) {
  const texts = t.value.overview;
  const { health, durability, retention_sec, version } = overview;
  const isReady = health.status === "ready";
  const kept = retention_sec === 0 ? texts.keptForEver : texts.kept(longDuration(retention_sec));
  return (
    <>
      <p class="health small">
        <span class={`status ${isReady ? "status-completed" : "status-failed"}`}>
          <span aria-hidden="true">{isReady ? "✓" : "✕"}</span>
          {isReady ? texts.ready : texts.unready}
        </span>
        <span class="muted" title={texts.durabilityHints[durability]}>
          {texts.durability(t.value.run.durabilities[durability])}
        </span>
        <span class="muted">{kept}</span>
        {health.index_behind > MANY_BEHIND && <span class="muted">{texts.behind(number(health.index_behind))}</span>}
        <span class="muted">{version}</span>
      </p>
      {!isReady && (
        <div class="health-reasons">
          <Notice kind="error">
            {health.reasons.map((reason) => (
              <p key={reason.err_id}>
                <strong>{reason.message}</strong> {reason.detail} {reason.hint}
              </p>
            ))}
          </Notice>
        </div>
      )}
    </>
  );
}
