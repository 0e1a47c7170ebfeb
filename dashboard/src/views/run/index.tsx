// One run: what it is, how it goes on, and everything about how it went.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { LogProps } from "../../components/log";
import { api, body } from "../../api/client";
import { asProblem, type Problem } from "../../api/problem";
import { useQuery } from "../../api/use-query";
import { Loading, Notice, ProblemNotice } from "../../components/notice";
import { localTime } from "../../format";
import { hashOf, place } from "../../router";
import { t } from "../../texts";
import type { ViewProps } from "..";
import { DataTab } from "./data-tab";
import { EventsTab } from "./events-tab";
import { GraphTab } from "./graph-tab";
import { RunHeader } from "./header";
import { isOver, type TabProps } from "./model";
import { setMoment } from "./moment";
import { TimelineTab } from "./timeline-tab";
import { useRun } from "./use-run";
import "./run.css";

const TABS = ["graph", "timeline", "log", "events", "data"] as const;
type Tab = (typeof TABS)[number];

export default function RunView({ rest }: ViewProps) {
  const [runId = "", tab] = rest;
  return <RunPage key={runId} runId={runId} tab={tab} />;
}

function RunPage({ runId, tab }: { runId: string; tab: string | undefined }) {
  const texts = t.value.run;
  const { run, problem, connection } = useRun(runId);
  const past = usePast(runId);
  useEffect(() => {
    if (run) document.title = `${run.flow_name} · ${t.value.shell.product}`;
  }, [run?.flow_name]);
  if (!run) return problem ? <ProblemNotice problem={problem} /> : <Loading />;
  const shown = past.run ?? run;
  const known = TABS.find((each) => each === tab);
  const current: Tab = known ?? (Object.keys(run.tasks).length > 1 ? "graph" : "log");
  const props: TabProps = { run, shown };
  return (
    <div class="run">
      <RunHeader run={run} shown={shown} />
      <Connection state={connection} />
      {problem && connection !== "lost" && <ProblemNotice problem={problem} hasData />}
      {past.problem && <ProblemNotice problem={past.problem} />}
      {past.run && (
        <Notice>
          <p>{texts.moment.shown(localTime(past.run.updated_at))}</p>
          <button type="button" class="link" onClick={() => setMoment(null)}>
            {texts.moment.back}
          </button>
        </Notice>
      )}
      <nav class="run-tabs" aria-label={texts.tabsLabel}>
        {TABS.map((each) => (
          <a key={each} href={tabAddress(runId, each)} aria-current={each === current ? "page" : undefined}>
            {texts.tabs[each]}
          </a>
        ))}
      </nav>
      {current === "graph" && <GraphTab {...props} />}
      {current === "timeline" && <TimelineTab {...props} />}
      {current === "log" && <Log runId={runId} finished={isOver(run)} tasks={Object.keys(run.tasks)} />}
      {current === "events" && <EventsTab {...props} />}
      {current === "data" && <DataTab {...props} />}
    </div>
  );
}

/** The log, which is loaded when it is first shown. */
function Log(props: LogProps) {
  const [Panel, setPanel] = useState<ComponentType<LogProps> | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    import("../../components/log").then(
      (module) => setPanel(() => module.default),
      (error: unknown) => setProblem(asProblem(error)),
    );
  }, []);
  if (problem) return <ProblemNotice problem={problem} onRetry={() => location.reload()} />;
  return Panel ? <Panel {...props} /> : <Loading />;
}

/** Another tab at the same moment. */
function tabAddress(runId: string, tab: Tab): string {
  const at = place.value.query.get("at");
  return hashOf(["runs", runId, tab], { at });
}

const REGAINED_MS = 6000;

function Connection({ state }: { state: "steady" | "lost" | "regained" }) {
  const texts = t.value.run.connection;
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    setShown(state !== "steady");
    if (state !== "regained") return undefined;
    const timer = setTimeout(() => setShown(false), REGAINED_MS);
    return () => clearTimeout(timer);
  }, [state]);
  if (!isShown || state === "steady") return null;
  return <Notice kind={state === "lost" ? "warning" : "success"}>{texts[state]}</Notice>;
}

const SLIDING_MS = 150;

function usePast(runId: string) {
  const at = place.value.query.get("at") ?? "";
  const [settled, setSettled] = useState(at);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(at), SLIDING_MS);
    return () => clearTimeout(timer);
  }, [at]);
  const answer = useQuery(
    `${runId} ${settled}`,
    (signal) => body(api.GET("/runs/{run_id}", { params: { path: { run_id: runId }, query: { at: settled, include: ["records"] } }, signal })),
    { isEnabled: settled !== "" },
  );
  // The last answer stays until the next one: sliding does not flicker.
  const isAsked = at !== "" && settled !== "";
  return { run: isAsked ? answer.data : undefined, problem: isAsked ? answer.problem : null };
}

