// What a run is at a glance: status, times, who and where, and why it is not running or how it ended.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, body } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CancelRunButton } from "../../components/actions";
import { CallMenu, pythonText, quoted } from "../../components/call-menu";
import { CopyButton } from "../../components/copy";
import { cut, LongText, Name, visible } from "../../components/name";
import { Notice, ProblemNotice } from "../../components/notice";
import { Status } from "../../components/status";
import { Duration, Time } from "../../components/time";
import { bytes, duration, number, percent } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { eventsPage } from "./events";
import { countsOf, isOver, isSilent, needsExplanation, progressOf, type RunSnapshot } from "./model";

export function RunHeader({ run, shown }: { run: RunSnapshot; shown: RunSnapshot }) {
  const texts = t.value.run;
  const isPast = run !== shown;
  const [isAsked, setAsked] = useState(false);
  return (
    <header class="run-head">
      <div class="run-title">
        <h1>
          <a href={hashOf(["flows", shown.flow_name])}>
            <Name text={shown.flow_name} />
          </a>
        </h1>
        <Status status={shown.status} isStale={isSilent(shown)} />
        <span class="run-id">
          <code>{run.run_id}</code>
          <CopyButton text={run.run_id} />
        </span>
        <span class="spring" />
        {!isOver(run) && run.status !== "CANCELLING" && <CancelRunButton runId={run.run_id} flowName={run.flow_name} />}
        {!isPast && !needsExplanation(run) && (
          <button type="button" class="quiet" aria-expanded={isAsked} onClick={() => setAsked(!isAsked)}>
            {texts.explain.ask}
          </button>
        )}
        <a class="run-compare" href={hashOf(["compare"], { a: run.run_id })}>
          {texts.compare}
        </a>
        <CallMenu calls={() => callsOf(run.run_id)} />
      </div>
      <Facts run={shown} />
      {!isPast && (isAsked || needsExplanation(run)) && <Explanation run={run} />}
      <Ending run={shown} />
    </header>
  );
}

function callsOf(runId: string) {
  return {
    path: `/runs/${encodeURIComponent(runId)}?include=records`,
    client: `get ${quoted(runId)}`,
    python: `print(client.get_run(${pythonText(runId)}, include=["records"]))`,
  };
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function RunLink({ runId }: { runId: string }) {
  return (
    <a class="mono" href={hashOf(["runs", runId])}>
      {runId}
    </a>
  );
}

const MOST_PROGRESS = 3;

function Facts({ run }: { run: RunSnapshot }) {
  const texts = t.value.run.facts;
  const over = isOver(run);
  const counts = countsOf(run);
  const progress = over ? [] : progressOf(run);
  return (
    <dl class="run-facts">
      <Fact name={texts.submitted}>
        <Time at={run.submitted_at} /> <Requester runId={run.run_id} />
      </Fact>
      <Fact name={texts.queued}>
        <Duration from={run.submitted_at} to={run.start_time ?? run.end_time} isRunning={!over} />
      </Fact>
      {run.start_time != null && (
        <Fact name={texts.ran}>
          <Duration from={run.start_time} to={run.end_time} isRunning={!over} />
        </Fact>
      )}
      {run.end_time != null && (
        <Fact name={texts.ended}>
          <Time at={run.end_time} />
        </Fact>
      )}
      {counts.length > 0 && (
        <Fact name={texts.tasks}>
          <span class="run-counts">
            {counts.map(([state, count]) => (
              <span key={state}>
                {number(count)} <Status status={state} />
              </span>
            ))}
          </span>
        </Fact>
      )}
      {progress.length > 0 && (
        <Fact name={t.value.run.node.progress}>
          {progress.slice(0, MOST_PROGRESS).map(({ task, share, message }) => (
            <div key={task}>
              <span class="number">{percent(share)}</span> <Name text={message || task} most={60} />
            </div>
          ))}
        </Fact>
      )}
      {(run.attempt ?? 0) > 0 && <Fact name={texts.attempt}>{number(run.attempt!)}</Fact>}
      {run.worker_id && (
        <Fact name={texts.worker}>
          <a href={hashOf(["workers"], { which: "all", worker: run.worker_id })}>
            <Name text={run.worker_id} />
          </a>
          {!over && !run.worker_alive && <span class="run-warning"> {texts.workerGone}</span>}
        </Fact>
      )}
      {!over && run.worker_id && (
        <Fact name={texts.heartbeat}>
          <Time at={run.heartbeat_at} />
        </Fact>
      )}
      {run.tag && (
        <Fact name={texts.tag}>
          <a href={hashOf(["runs"], { tag: run.tag })}>
            <Name text={run.tag} />
          </a>
        </Fact>
      )}
      {run.tags && run.tags.length > 0 && (
        <Fact name={texts.labels}>
          <span class="run-labels">
            {run.tags.map((label) => (
              <a key={label} class="run-label" href={hashOf(["runs"], { tags: label })}>
                <Name text={label} most={60} />
              </a>
            ))}
          </span>
        </Fact>
      )}
      <Durability />
      {run.timeout_sec != null && <Fact name={texts.timeLimit}>{duration(run.timeout_sec)}</Fact>}
      {run.code_version && (
        <Fact name={texts.codeVersion}>
          <code>
            <Name text={run.code_version} most={40} />
          </code>
        </Fact>
      )}
      {run.wheels && run.wheels.length > 0 && <Wheels wheels={run.wheels} />}
      {run.graph_version != null && <Fact name={texts.graphVersion}>{number(run.graph_version)}</Fact>}
      {run.workflow_yaml_sha256 && (
        <Fact name={texts.flowFile}>
          <a class="mono" href={hashOf(["runs"], { workflow_yaml_sha256: run.workflow_yaml_sha256 })} title={run.workflow_yaml_sha256}>
            {run.workflow_yaml_sha256.slice(0, 12)}
          </a>
          {run.workflow_yaml_bytes != null && ` ${bytes(run.workflow_yaml_bytes)}`}
        </Fact>
      )}
      {run.rerun_of && (
        <Fact name={texts.rerunOf}>
          <RunLink runId={run.rerun_of} />
        </Fact>
      )}
      {run.replay_of && (
        <Fact name={texts.replayOf}>
          <RunLink runId={run.replay_of} />
        </Fact>
      )}
      {run.archived_at != null && (
        <Fact name={texts.archived}>
          <Time at={run.archived_at} />
        </Fact>
      )}
    </dl>
  );
}

function Wheels({ wheels }: { wheels: NonNullable<RunSnapshot["wheels"]> }) {
  return (
    <Fact name={t.value.run.facts.wheels}>
      <details>
        <summary>{number(wheels.length)}</summary>
        <ul class="run-wheels">
          {wheels.map((wheel) => (
            <li key={wheel.name}>
              <Name text={wheel.name} /> <code title={wheel.sha256}>{wheel.sha256.slice(0, 12)}</code>
            </li>
          ))}
        </ul>
      </details>
    </Fact>
  );
}

/** How the broker keeps runs, which no run says by itself. */
function Durability() {
  const texts = t.value.run;
  const { data } = useQuery("durability", (signal) => body(api.GET("/overview", { signal })));
  return data ? <Fact name={texts.facts.durability}>{texts.durabilities[data.durability as keyof typeof texts.durabilities] ?? data.durability}</Fact> : null;
}

/** Who submitted the run: only its first event says so. */
function Requester({ runId }: { runId: string }) {
  const texts = t.value.run;
  const first = useQuery(`first event ${runId}`, (signal) => eventsPage(runId, { limit: 1 }, signal)).data?.items[0];
  if (!first) return null;
  const { kind, id } = first.actor as { kind?: string; id?: string | null };
  const who = id ?? (kind === "user" ? texts.facts.anonymous : (kind ?? ""));
  return <bdi title={first.requestId ? `${texts.facts.requestId} ${first.requestId}` : undefined}>{texts.facts.by(visible(cut(who, 80)))}</bdi>;
}

const EXPLAIN_MS = 5000;

// A code of the gateway's explanations.
const WAITS_FOR_ANSWER = "nodes_wait_for_somebody";

/** Why the run waits, or ended so, and what to do. */
function Explanation({ run }: { run: RunSnapshot }) {
  const texts = t.value.run.explain;
  const { data, problem } = useQuery(
    `explain ${run.run_id} ${run.status} ${run.stale}`,
    (signal) => body(api.GET("/runs/{run_id}/explain", { params: { path: { run_id: run.run_id } }, signal })),
    { everyMs: isOver(run) ? 0 : EXPLAIN_MS },
  );
  if (problem && !data) return <ProblemNotice problem={problem} />;
  if (!data) return null;
  return (
    <Notice kind={run.status === "FAILED" ? "error" : run.status === "PENDING" || run.stale || run.status === "CANCELLING" ? "warning" : "info"}>
      <h2 class="run-explain-title">{texts.title}</h2>
      <ul class="run-reasons">
        {data.reasons.map((reason) => (
          <li key={reason.code + reason.message}>
            <p class="pre-line" dir="auto">
              {lines(reason.message)}
            </p>
            {reason.hint && (
              <p class="muted small pre-line" dir="auto">
                {lines(reason.hint)}
              </p>
            )}
          </li>
        ))}
      </ul>
      {data.reasons.some((reason) => reason.code === WAITS_FOR_ANSWER) && <a href={hashOf(["approvals"])}>{t.value.run.node.approve}</a>}
      {data.dead_letter && <a href={hashOf(["dead-letters"], { flow: run.flow_name })}>{texts.deadLetter}</a>}
    </Notice>
  );
}

const MESSAGE_CHARS = 1000;

function lines(text: string): string {
  return cut(text, MESSAGE_CHARS).split("\n").map(visible).join("\n");
}

function Ending({ run }: { run: RunSnapshot }) {
  const texts = t.value.run;
  const how = (word: string | null): string => (word !== null && word in texts.hows ? texts.hows[word as keyof typeof texts.hows] : (word ?? "–"));
  const { cancel, timeout } = run;
  const lastLines = run.last_lines ?? [];
  return (
    <>
      {cancel && (
        <Notice kind={run.status === "CANCELLING" ? "warning" : "info"}>
          <h2 class="run-explain-title">{texts.cancel.title}</h2>
          <dl class="run-facts">
            <Fact name={texts.cancel.requested}>
              <Time at={cancel.requested_at} />
            </Fact>
            <Fact name={texts.cancel.by}>{cancel.requested_by ? <Name text={cancel.requested_by} /> : texts.facts.anonymous}</Fact>
            {cancel.reason && (
              <Fact name={texts.cancel.reason}>
                <LongText text={cancel.reason} />
              </Fact>
            )}
            {/* The worker reports it together with the end. */}
            {cancel.delivered_at !== null && (
              <Fact name={texts.cancel.delivered}>
                <Time at={cancel.delivered_at} />
              </Fact>
            )}
            <Fact name={texts.cancel.stopped}>{cancel.stopped_at === null ? texts.cancel.notYet : <Duration from={cancel.requested_at} to={cancel.stopped_at} />}</Fact>
            {cancel.how && <Fact name={texts.cancel.how}>{how(cancel.how)}</Fact>}
          </dl>
        </Notice>
      )}
      {timeout && (
        <Notice kind="warning">
          <h2 class="run-explain-title">{texts.timeout.title}</h2>
          <p>
            {timeout.task ? texts.timeout.ofTask(visible(cut(timeout.task, 80)), duration(timeout.limit_sec)) : texts.timeout.ofRun(duration(timeout.limit_sec))}
          </p>
          <dl class="run-facts">
            <Fact name={texts.timeout.reached}>
              <Time at={timeout.reached_at} />
            </Fact>
            <Fact name={texts.timeout.stopped}>
              +<Duration from={timeout.reached_at} to={timeout.stopped_at} />
            </Fact>
            <Fact name={texts.timeout.how}>{how(timeout.how)}</Fact>
          </dl>
        </Notice>
      )}
      {run.error && (
        <section class="run-error">
          <h2>
            {texts.error.title} {run.error_code && <code>{visible(cut(run.error_code, 80))}</code>}
          </h2>
          <LongText text={run.error} />
          {lastLines.length > 0 && (
            <details open>
              <summary>{texts.error.lastLines}</summary>
              <LongText text={lastLines.join("\n")} />
              <a href={hashOf(["runs", run.run_id, "log"])}>{texts.error.allLines}</a>
            </details>
          )}
        </section>
      )}
    </>
  );
}
