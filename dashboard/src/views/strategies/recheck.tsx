// The progress of one request: batches, strategies, their health and files. Reads again until it has ended.

import { useState } from "preact/hooks";
import { api, body, type Schemas } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CancelRunButton } from "../../components/actions";
import { CallMenu } from "../../components/call-menu";
import { Name } from "../../components/name";
import { Loading, Notice } from "../../components/notice";
import { Time } from "../../components/time";
import { number } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { recheckCalls } from "./calls";
import { Artifacts, HealthMark, PdcaProblem } from "./parts";
import { runIdOf } from "./ulid";

type Request = Schemas["RecheckStatus"];
const EVERY_MS = 2000;
const FIRST_RUNS = 50;
const RECHECK_FLOW = "pdca.recheck";
const CLASSES = { running: "status-running", success: "status-completed", failed: "status-failed" };
const MARKS = { running: "▶", success: "✓", failed: "✕" };

export function Recheck({ id }: { id: string }) {
  const texts = t.value.strategies;
  const [hasEnded, setEnded] = useState(false);
  const { data, problem, isLoading, refresh } = useQuery(
    id,
    async (signal) => {
      const found = await body(api.GET("/gui/requests/{request_id}", { params: { path: { request_id: id } }, signal }));
      setEnded(found.status !== "running");
      return found;
    },
    { everyMs: hasEnded ? 0 : EVERY_MS },
  );
  const runId = runIdOf(id);
  return (
    <>
      <p>
        <a href={hashOf(["strategies", "rechecks"])}>← {texts.back}</a>
      </p>
      <header class="view-head">
        <h1>
          {texts.request} <Name text={id} />
        </h1>
        {data && (
          <span class={`status ${CLASSES[data.status]}`}>
            <span aria-hidden="true">{MARKS[data.status]}</span>
            {texts.statuses[data.status]}
          </span>
        )}
        <span class="spring" />
        {data?.status === "running" && runId && <CancelRunButton runId={runId} flowName="pdca.request" onDone={refresh} />}
        <CallMenu calls={() => recheckCalls(id)} />
      </header>
      {problem && <PdcaProblem problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data && <Progress request={data} runId={runId} />}
    </>
  );
}

function Progress({ request, runId }: { request: Request; runId: string | null }) {
  const texts = t.value.strategies;
  const { progress, summary } = request;
  return (
    <>
      {request.note && (
        <Notice kind="warning">
          <p>
            {texts.waiting} <Name text={request.note} />
          </p>
        </Notice>
      )}
      <div class="recheck">
        <section class="card">
          <Bar title={texts.batches} done={progress.completed_batches} all={progress.total_batches} />
          <Bar title={texts.strategyCount} done={progress.completed_strategies} all={progress.total_strategies} />
          <dl class="facts">
            <dt>{texts.submitted}</dt>
            <dd>
              <Time at={request.submitted_at} />
            </dd>
            <dt>{texts.lastUpdate}</dt>
            <dd>
              <Time at={request.last_update} />
            </dd>
            <dt>{texts.engine}</dt>
            <dd>
              <Name text={request.dag.name} />
            </dd>
            {runId && (
              <>
                <dt>{texts.run}</dt>
                <dd>
                  <a class="mono" href={hashOf(["runs", runId])}>
                    {runId}
                  </a>
                </dd>
              </>
            )}
          </dl>
        </section>
        <section class="card">
          <h2>{texts.strategyCount}</h2>
          <dl class="facts">
            <dt>{texts.succeeded}</dt>
            <dd class="number">{number(summary.success)}</dd>
            <dt>{texts.failedCount}</dt>
            <dd class="number">{number(summary.failed)}</dd>
            {(["healthy", "degraded", "unknown"] as const).map((health) => (
              <>
                <dt key={health}>
                  <HealthMark health={health} />
                </dt>
                <dd class="number">{number(summary.health[health])}</dd>
              </>
            ))}
          </dl>
        </section>
        <section class="card">
          <h2>{texts.files}</h2>
          {request.artifacts.length === 0 ? <p class="muted">{texts.noFiles}</p> : <Files request={request} />}
        </section>
        <section class="card">
          <h2>{texts.batchRuns}</h2>
          <BatchRuns request={request} />
        </section>
      </div>
    </>
  );
}

function Bar({ title, done, all }: { title: string; done: number; all: number }) {
  const label = t.value.strategies.doneOf(number(done), number(all));
  return (
    <p class="bar">
      <span>
        {title} <span class="muted number">{label}</span>
      </span>
      <progress max={Math.max(1, all)} value={all === 0 ? 1 : done} aria-label={`${title}: ${label}`} />
    </p>
  );
}

function Files({ request }: { request: Request }) {
  const [most, setMost] = useState(FIRST_RUNS);
  return (
    <>
      <Artifacts artifacts={request.artifacts.slice(0, most)} />
      {request.artifacts.length > most && (
        <button type="button" class="link" onClick={() => setMost(most + FIRST_RUNS)}>
          {t.value.shell.showMoreRows(request.artifacts.length - most)}
        </button>
      )}
      {request.artifacts_truncated && <p class="muted">{t.value.strategies.filesTruncated}</p>}
    </>
  );
}

/** Those of another engine are no runs of this server. */
function BatchRuns({ request }: { request: Request }) {
  const [most, setMost] = useState(FIRST_RUNS);
  const { run_ids: runs, name } = request.dag;
  if (runs.length === 0) return <span class="muted">–</span>;
  return (
    <>
      <ol class="batch-runs">
        {runs.slice(0, most).map((run) => (
          <li key={run} class="mono">
            {name === RECHECK_FLOW ? <a href={hashOf(["runs", run])}>{run}</a> : <Name text={run} />}
          </li>
        ))}
      </ol>
      {runs.length > most && (
        <button type="button" class="link" onClick={() => setMost(most + FIRST_RUNS)}>
          {t.value.shell.showMoreRows(runs.length - most)}
        </button>
      )}
    </>
  );
}
