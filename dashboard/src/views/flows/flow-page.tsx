// One flow: its graph, parameters and versions, and its runs over time.

import { useMemo } from "preact/hooks";
import { api, body, type Schemas } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CallMenu } from "../../components/call-menu";
import { DataTable, type Column } from "../../components/data-table";
import Graph from "../../components/graph";
import { Name } from "../../components/name";
import { Loading, ProblemNotice } from "../../components/notice";
import { RunCharts } from "../../components/run-charts";
import { isFinished, Status } from "../../components/status";
import { Duration, Time } from "../../components/time";
import { number, percent } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { seconds, Tags } from "./flow-list";
import { flowCalls, recentShare, submitCalls, type FlowDetails, type FlowVersion, type Param } from "./flows";

const EVERY_MS = 10_000;
const RUNS_EVERY_MS = 5000;
const SHOWN_RUNS = 10;

export function FlowPage({ name }: { name: string }) {
  const texts = t.value.flows;
  const { data, problem, isLoading, refresh } = useQuery(
    name,
    async (signal) => await body(api.GET("/flows/{name}", { params: { path: { name } }, signal })),
    { everyMs: EVERY_MS },
  );
  return (
    <>
      <header class="view-head">
        <h1 class="flow-title">
          <a href={hashOf(["flows"])}>{t.value.shell.pages.flows}</a> <span class="muted">/</span> <Name text={name} />
        </h1>
        <span class="spring" />
        {data && <CallMenu label={texts.submit} calls={() => submitCalls(name, data.params)} />}
        <CallMenu calls={() => flowCalls(name)} />
      </header>
      {problem && <ProblemNotice problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      <div class="flow-parts">
        {data && <About flow={data} />}
        <RunCharts flow={name} />
        {data && <Versions versions={data.versions} />}
        <RecentRuns flow={name} />
      </div>
    </>
  );
}

function About({ flow }: { flow: FlowDetails }) {
  const texts = t.value.flows;
  const share = recentShare(flow.recent);
  return (
    <div class="flow-about">
      <section class="card">
        <h2>{texts.about}</h2>
        <dl class="facts">
          <dt>{texts.tags}</dt>
          <dd>
            <Tags tags={flow.tags} />
          </dd>
          <dt>{texts.workers}</dt>
          <dd>{number(flow.workers)}</dd>
          <dt>{texts.success}</dt>
          <dd>{share === null ? "–" : `${percent(share)} ${texts.ofLast(number(flow.recent.runs))}`}</dd>
          <dt>{texts.median}</dt>
          <dd>{seconds(flow.recent.median_sec)}</dd>
          <dt>{texts.p95}</dt>
          <dd>{seconds(flow.recent.p95_sec)}</dd>
        </dl>
      </section>
      <section class="card">
        <h2>{texts.params}</h2>
        <Params params={flow.params} takesOthers={flow.takes_others} />
      </section>
    </div>
  );
}

function Params({ params, takesOthers }: { params: readonly Param[] | null; takesOthers: boolean }) {
  const texts = t.value.flows;
  if (params === null) return <p class="muted">{texts.paramsUnknown}</p>;
  return (
    <>
      {params.length === 0 && <p class="muted">{texts.noParams}</p>}
      <ul class="flow-params">
        {params.map((param) => (
          <li key={param.name}>
            <code>
              <Name text={param.name} most={80} />
            </code>
            {param.required && <span class="tag">{texts.required}</span>}
          </li>
        ))}
      </ul>
      {takesOthers && <p class="muted small">{texts.takesOthers}</p>}
    </>
  );
}

function Versions({ versions }: { versions: readonly FlowVersion[] }) {
  const texts = t.value.flows;
  return (
    <>
      {versions.map((version, index) => (
        <section key={index} class="flow-part">
          <h2>{versions.length === 1 ? texts.graph : texts.versionOf(number(index + 1), number(versions.length))}</h2>
          {versions.length > 1 && (
            <div class="flow-version">
              <Tags tags={version.tags} />
              <span class="muted">{texts.announcedBy(version.workers)}</span>
            </div>
          )}
          <FlowGraph version={version} />
        </section>
      ))}
    </>
  );
}

function FlowGraph({ version }: { version: FlowVersion }) {
  const texts = t.value.flows;
  const key = JSON.stringify([version.nodes, version.edges]);
  const { nodes, edges } = useMemo(
    () => ({
      nodes: version.nodes.map((id) => ({ id })),
      edges: version.edges.flatMap(([from, to]) => (from === undefined || to === undefined ? [] : [{ from, to }])),
    }),
    [key],
  );
  if (nodes.length === 0) return <p class="muted">{texts.graphUnknown}</p>;
  return (
    <>
      {edges.length === 0 && nodes.length > 1 && <p class="muted small">{texts.noEdges}</p>}
      <Graph nodes={nodes} edges={edges} />
    </>
  );
}

type Run = Schemas["RunSummary"];

function RecentRuns({ flow }: { flow: string }) {
  const texts = t.value.flows;
  const { data, problem, refresh } = useQuery(
    flow,
    async (signal) => {
      const page = await body(api.GET("/runs", { params: { query: { flow, limit: SHOWN_RUNS, cursor: "" } }, signal }));
      return ("items" in page ? page.items : page) as readonly Run[];
    },
    { everyMs: RUNS_EVERY_MS },
  );
  const columns: Column<Run>[] = [
    { key: "status", title: texts.status, cell: (run) => <Status status={run.status} /> },
    {
      key: "run",
      title: texts.run,
      isHead: true,
      cell: (run) => (
        <a class="mono" href={hashOf(["runs", run.run_id])}>
          {run.run_id}
        </a>
      ),
    },
    { key: "submitted", title: texts.submitted, cell: (run) => <Time at={run.submitted_at} /> },
    { key: "queue", title: texts.queueTime, isNumber: true, cell: (run) => <Duration from={run.submitted_at} to={run.start_time} /> },
    { key: "run-time", title: texts.runTime, isNumber: true, cell: (run) => <Duration from={run.start_time} to={run.end_time} isRunning={!isFinished(run.status)} /> },
  ];
  return (
    <section class="flow-part">
      <header class="flow-part-head">
        <h2>{texts.recentRuns}</h2>
        <a href={hashOf(["runs"], { flow })}>{texts.allRuns}</a>
      </header>
      {problem && <ProblemNotice problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {data?.length === 0 && <p class="muted">{texts.noRuns}</p>}
      {data && data.length > 0 && <DataTable caption={texts.recentRuns} columns={columns} rows={data} keyOf={(run) => run.run_id} />}
    </section>
  );
}
