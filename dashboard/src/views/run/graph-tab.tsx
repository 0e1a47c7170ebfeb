// The run as a graph with its states, live or at a moment, and the details of a node.

import { useMemo } from "preact/hooks";
import { api, body } from "../../api/client";
import { useQuery } from "../../api/use-query";
import Graph, { type GraphEdge } from "../../components/graph";
import { JsonView } from "../../components/json";
import { LongText, Name } from "../../components/name";
import { Empty, ProblemNotice } from "../../components/notice";
import { Status, statusText } from "../../components/status";
import { Duration, Time } from "../../components/time";
import { number, percent } from "../../format";
import { own } from "../../own";
import { hashOf, place, setQuery } from "../../router";
import { t } from "../../texts";
import { edgesOf, isOver, nodesOf, recordsOf, type RunSnapshot, type TabProps, taskState } from "./model";
import { MomentSlider } from "./moment";

/** The edges between the tasks of the run; asked for again when it gets further tasks. */
export function useEdges(run: RunSnapshot): { edges: readonly GraphEdge[]; problem: ReturnType<typeof useQuery>["problem"]; isLoading: boolean } {
  const tasks = Object.keys(run.tasks).length;
  const { data, problem, isLoading } = useQuery(
    `graph ${run.run_id} ${tasks}`,
    async (signal) => {
      const { graph } = await body(
        api.GET("/executions/{executionId}", { params: { path: { executionId: run.run_id }, query: { include: "graph" } }, signal }),
      );
      return edgesOf(graph?.edges ?? []);
    },
    { isEnabled: tasks > 1 },
  );
  return { edges: data ?? NONE, problem, isLoading: isLoading && tasks > 1 };
}

const NONE: readonly GraphEdge[] = [];

export function selectNode(id: string | null): void {
  const query = new URLSearchParams(place.peek().query);
  if (id === null) query.delete("node");
  else query.set("node", id);
  setQuery(query);
}

export function GraphTab({ run, shown }: TabProps) {
  const texts = t.value.run.graph;
  const { edges, problem, isLoading } = useEdges(run);
  const selected = place.value.query.get("node");
  const words = { state: statusText, attempt: texts.attempt };
  const nodes = useMemo(() => nodesOf(run, shown, words), [run.tasks, shown, texts]);
  if (nodes.length === 0) {
    return (
      <Empty title={texts.empty}>
        <p class="muted">{texts.emptyHint}</p>
      </Empty>
    );
  }
  const isChosen = selected !== null && Object.hasOwn(run.tasks, selected);
  return (
    <section>
      {problem && <ProblemNotice problem={problem} />}
      {!isLoading && !problem && edges.length === 0 && nodes.length > 1 && <p class="muted small">{texts.noEdges}</p>}
      <div class={`run-graph${isChosen ? " run-graph-open" : ""}`}>
        {!isLoading && <Graph nodes={nodes} edges={edges} selected={selected} onSelect={selectNode} />}
        {isChosen && <NodeDetails run={shown} node={selected} />}
      </div>
      <MomentSlider run={run} shown={shown} />
    </section>
  );
}

function NodeDetails({ run, node }: { run: RunSnapshot; node: string }) {
  const texts = t.value.run.node;
  const record = own(recordsOf(run), node);
  const state = taskState(own(run.tasks, node) ?? "PENDING", record);
  const isWaiting = state === "WAITING";
  return (
    <aside class="run-node" aria-label={node}>
      <header>
        <h2>
          <Name text={node} />
        </h2>
        <button type="button" class="quiet" aria-label={texts.close} onClick={() => selectNode(null)}>
          ×
        </button>
      </header>
      <Status status={state} />
      {record?.started_at === undefined && !isWaiting && <p class="muted">{texts.notStarted}</p>}
      <dl class="run-facts">
        {(record?.attempt ?? 0) > 0 && (
          <div>
            <dt>{texts.attempt}</dt>
            <dd>{number(record!.attempt)}</dd>
          </div>
        )}
        {record?.started_at !== undefined && (
          <>
            <div>
              <dt>{texts.started}</dt>
              <dd>
                <Time at={record.started_at} />
              </dd>
            </div>
            <div>
              <dt>{texts.ran}</dt>
              <dd>
                <Duration from={record.started_at} to={record.ended_at ?? run.end_time} isRunning={!isOver(run)} />
              </dd>
            </div>
          </>
        )}
        {isWaiting && (
          <div>
            <dt>{texts.waitingSince}</dt>
            <dd>
              <Time at={record?.waiting_since} />
            </dd>
          </div>
        )}
        {record?.choice !== undefined && (
          <div>
            <dt>{texts.choice}</dt>
            <dd>
              <Name text={record.choice} />
            </dd>
          </div>
        )}
      </dl>
      {state === "RUNNING" && record?.progress !== undefined && (
        <label class="run-progress">
          {texts.progress} {percent(record.progress / 100)}
          <progress max={100} value={record.progress} />
        </label>
      )}
      {record?.message && <LongText text={record.message} />}
      {isWaiting && <a href={hashOf(["approvals"])}>{texts.approve}</a>}
      {record?.error !== undefined && (
        <section>
          <h3>{texts.error}</h3>
          <LongText text={record.error} />
          {record.traceback !== undefined && (
            <details>
              <summary>{texts.traceback}</summary>
              <LongText text={record.traceback} />
            </details>
          )}
        </section>
      )}
      {record?.prompt !== undefined && <Value title={texts.prompt} value={record.prompt} fileName={`${node}-prompt`} />}
      {record?.answer !== undefined && <Value title={texts.answer} value={record.answer} fileName={`${node}-answer`} />}
      {record?.output !== undefined && <Value title={texts.output} value={record.output} fileName={`${node}-output`} />}
      <p class="run-node-links">
        <a href={hashOf(["runs", run.run_id, "log"], { task: node })}>{texts.log}</a>
        <a href={hashOf(["runs", run.run_id, "events"], { nodeId: node })}>{texts.events}</a>
      </p>
    </aside>
  );
}

function Value({ title, value, fileName }: { title: string; value: unknown; fileName: string }) {
  return (
    <section>
      <h3>{title}</h3>
      <JsonView value={value} fileName={fileName} />
    </section>
  );
}
