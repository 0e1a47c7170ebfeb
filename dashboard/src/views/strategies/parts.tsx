// What several pages of strategies show.

import { useState } from "preact/hooks";
import { api, body, type Schemas } from "../../api/client";
import { asProblem, type Problem } from "../../api/problem";
import { caller, may } from "../../api/session";
import { Name } from "../../components/name";
import { Notice, ProblemNotice } from "../../components/notice";
import { bytes, number } from "../../format";
import { page } from "../../page";
import { hashOf } from "../../router";
import { t } from "../../texts";

export type Artifact = Schemas["ArtifactOut"];
export type Health = "healthy" | "degraded" | "unknown";
export type KpiName = "winrate" | "sharpe" | "max_dd";
export const KPIS: readonly KpiName[] = ["winrate", "sharpe", "max_dd"];

const MARKS: Record<Health, string> = { healthy: "✓", degraded: "▼", unknown: "?" };
const CLASSES: Record<Health, string> = { healthy: "status-completed", degraded: "status-waiting", unknown: "" };
const KPI_DIGITS = 3;

export function HealthMark({ health }: { health: Health }) {
  return (
    <span class={`status ${CLASSES[health]}`}>
      <span aria-hidden="true">{MARKS[health]}</span>
      {t.value.strategies.healths[health]}
    </span>
  );
}

export function kpiText(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : number(value, KPI_DIGITS);
}

export function RequestLink({ id }: { id: string }) {
  return (
    <a class="mono" href={hashOf(["strategies", "recheck", id])} title={id}>
      {`…${id.slice(-8)}`}
    </a>
  );
}

/** A refusal of /gui: a token may be good for everything but these APIs. */
export function PdcaProblem({ problem, hasData, onRetry }: { problem: Problem; hasData: boolean; onRetry: () => void }) {
  const texts = t.value.strategies;
  const audiences = caller.value?.kind === "jwt" ? caller.value.audiences : null;
  return (
    <>
      <ProblemNotice problem={problem} hasData={hasData} onRetry={onRetry} />
      {problem.status === 401 && audiences && (
        <Notice kind="warning">
          <p>{texts.audience}</p>
          <p dir="auto">{texts.audienceHint(audiences.join(", ") || "–")}</p>
        </Notice>
      )}
    </>
  );
}

/** Files of batches. Their links need no credentials and live for five minutes, so one is made when it is wanted. */
export function Artifacts({ artifacts }: { artifacts: readonly Artifact[] }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const texts = t.value.strategies;
  const refused = may("pdca:download") ? null : t.value.actions.missingScope("pdca:download");
  const download = async (artifact: Artifact): Promise<void> => {
    if (refused) return;
    try {
      const link = await body(api.GET("/gui/artifacts/{id}/url", { params: { path: { id: artifact.id } } }));
      setProblem(null);
      const anchor = document.createElement("a");
      anchor.href = new URL(link.url, page.baseUrl).href;
      anchor.download = artifact.name;
      anchor.rel = "noreferrer";
      anchor.click();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <>
      <ul class="artifacts">
        {artifacts.map((artifact) => (
          <li key={artifact.id}>
            <button type="button" class="link" aria-disabled={refused ? true : undefined} title={refused ?? `SHA-256 ${artifact.sha256}`} onClick={() => void download(artifact)}>
              <Name text={artifact.name} most={60} />
              <span class="visually-hidden"> {refused ?? texts.download}</span>
            </button>{" "}
            <span class="muted small number">{bytes(artifact.bytes)}</span>
          </li>
        ))}
      </ul>
      {problem && <ProblemNotice problem={problem} />}
    </>
  );
}
