// Two runs side by side: how long each step took, and what was different.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, body, type Schemas } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CallMenu, pythonText, quoted } from "../../components/call-menu";
import { Dialog } from "../../components/dialog";
import { JsonView } from "../../components/json";
import { cut, Name, visible } from "../../components/name";
import { Empty, Loading, Notice, ProblemNotice } from "../../components/notice";
import { Status, statusText } from "../../components/status";
import { Time } from "../../components/time";
import { VirtualList } from "../../components/virtual-list";
import { duration, localTime, number, percent } from "../../format";
import { hashOf, place, setQuery } from "../../router";
import { t } from "../../texts";
import { isOver, type RunSnapshot } from "../run/model";
import { compare, type Difference, pathText } from "./diff";
import { byChange, longest, previousOf, type Step, stepsOf } from "./steps";
import "./compare.css";

type RunSummary = Schemas["RunSummary"];

const RECENT = 30;
const ROW_HEIGHT = 44;
const RUNNING_MS = 3000;

export default function CompareView() {
  const texts = t.value.compare;
  const { query } = place.value;
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const one = useSnapshot(a);
  const other = useSnapshot(b);
  const recent = useRuns(one.data ?? other.data, null).data ?? NONE;
  // With one run only it is the second, and the first is the one before it: changes go from the older to the newer.
  const earlier = useRuns(b === "" ? one.data : undefined, one.data?.submitted_at ?? null).data;
  const previous = one.data && b === "" && earlier ? previousOf(one.data, earlier) : undefined;
  useEffect(() => {
    if (previous) setQuery({ a: previous.run_id, b: a });
  }, [previous?.run_id]);
  const problem = one.problem ?? other.problem;
  return (
    <div class="compare">
      <div class="view-head">
        <h1>{t.value.shell.pages.compare}</h1>
        <span class="spring" />
        <button type="button" disabled={!a || !b} onClick={() => setQuery({ a: b, b: a })}>
          {texts.swap}
        </button>
        {a && b && <CallMenu calls={() => callsOf(a, b)} />}
      </div>
      <div class="compare-choice">
        <Choice label={texts.first} value={a} onChoose={(id) => setQuery({ a: id, b })} />
        <Choice label={texts.second} value={b} onChoose={(id) => setQuery({ a, b: id })} />
        <datalist id="compare-runs">
          {recent.map((run) => (
            <option key={run.run_id} value={run.run_id}>
              {`${statusText(run.status)} · ${run.submitted_at == null ? "" : localTime(run.submitted_at)}`}
            </option>
          ))}
        </datalist>
      </div>
      {problem && <ProblemNotice problem={problem} hasData={one.data !== undefined && other.data !== undefined} />}
      {!a && <Empty title={texts.choose} />}
      {a && !b && one.data && earlier && !previous && <Empty title={texts.noPrevious} />}
      {((a && one.isLoading && !one.data) || (b && other.isLoading && !other.data)) && <Loading />}
      {one.data && other.data && <Comparison a={one.data} b={other.data} />}
    </div>
  );
}

function callsOf(a: string, b: string) {
  return {
    path: `/runs/${encodeURIComponent(a)}?include=records`,
    client: `get ${quoted(a)} ${quoted(b)}`,
    python: [a, b].map((id) => `print(client.get_run(${pythonText(id)}, include=["records"]))`).join("\n"),
  };
}

/** A run with its records; asked for again until it is over. */
function useSnapshot(runId: string) {
  const [isRunning, setRunning] = useState(false);
  const answer = useQuery(
    `run ${runId}`,
    (signal) => body(api.GET("/runs/{run_id}", { params: { path: { run_id: runId }, query: { include: ["records"] } }, signal })),
    { isEnabled: runId !== "", everyMs: isRunning ? RUNNING_MS : 0 },
  );
  const goesOn = runId !== "" && answer.data !== undefined && !isOver(answer.data);
  useEffect(() => setRunning(goesOn), [goesOn]);
  return runId === "" ? { ...answer, data: undefined, problem: null } : answer;
}

const NONE: readonly RunSummary[] = [];

/** Runs of the same flow, those changed last first; with a time only those that were submitted before it. */
function useRuns(run: RunSnapshot | undefined, before: number | null) {
  return useQuery(
    `runs ${run?.flow_name} ${before}`,
    async (signal): Promise<readonly RunSummary[]> => {
      const query = { flow: run!.flow_name, limit: RECENT, ...(before !== null && { submitted_before: String(before) }) };
      const found = await body(api.GET("/runs", { params: { query }, signal }));
      return Array.isArray(found) ? found : found.items;
    },
    { isEnabled: run !== undefined },
  );
}

function Choice({ label, value, onChoose }: { label: string; value: string; onChoose: (id: string) => void }) {
  return (
    <label>
      {label}
      <input type="search" list="compare-runs" spellcheck={false} maxLength={64} value={value} onChange={(event) => onChoose(event.currentTarget.value.trim())} />
    </label>
  );
}

function Comparison({ a, b }: { a: RunSnapshot; b: RunSnapshot }) {
  const texts = t.value.compare;
  return (
    <>
      {a.flow_name !== b.flow_name && <Notice kind="warning">{texts.flowsDiffer(visible(cut(a.flow_name, 80)), visible(cut(b.flow_name, 80)))}</Notice>}
      {a.run_id === b.run_id && <Notice>{texts.sameRun}</Notice>}
      <Facts a={a} b={b} />
      <Steps a={a} b={b} />
      <Differences title={texts.params} a={a.params} b={b.params} />
      <Differences title={texts.result} a={a.result} b={b.result} />
    </>
  );
}

interface Fact {
  readonly name: string;
  readonly a: ComponentChildren;
  readonly b: ComponentChildren;
  /** undefined: that they differ says nothing. */
  readonly isEqual?: boolean;
  /** Neither run has it. */
  readonly isEmpty?: boolean;
}

function Facts({ a, b }: { a: RunSnapshot; b: RunSnapshot }) {
  const texts = t.value.compare;
  const names = t.value.run.facts;
  const plain = (name: string, of: (run: RunSnapshot) => string | null | undefined): Fact => {
    const [one, other] = [of(a) ?? "", of(b) ?? ""];
    const shown = (text: string) => (text ? <Name text={text} most={60} /> : <span class="muted">–</span>);
    return { name, a: shown(one), b: shown(other), isEqual: one === other, isEmpty: one === "" && other === "" };
  };
  const timed = (name: string, of: (run: RunSnapshot) => number | null): Fact => {
    const [one, other] = [of(a), of(b)];
    return {
      name,
      a: one === null ? "–" : duration(one),
      b: (
        <>
          {other === null ? "–" : duration(other)} {one !== null && other !== null && <Change seconds={other - one} of={one} />}
        </>
      ),
    };
  };
  const link = (run: RunSnapshot) => (
    <a class="mono" href={hashOf(["runs", run.run_id])}>
      {run.run_id}
    </a>
  );
  const wheels = (run: RunSnapshot): string => (run.wheels ?? []).map((wheel) => `${wheel.name} ${wheel.sha256.slice(0, 12)}`).join("\n");
  const facts: Fact[] = [
    { name: texts.run, a: link(a), b: link(b) },
    { name: texts.status, a: <Status status={a.status} />, b: <Status status={b.status} />, isEqual: a.status === b.status },
    plain(texts.flow, (run) => run.flow_name),
    { name: names.submitted, a: <Time at={a.submitted_at} as="local" />, b: <Time at={b.submitted_at} as="local" /> },
    timed(names.queued, (run) => (run.submitted_at != null && run.start_time != null ? run.start_time - run.submitted_at : null)),
    timed(names.ran, (run) => (run.start_time != null && run.end_time != null ? run.end_time - run.start_time : null)),
    plain(names.attempt, (run) => (run.attempt == null ? null : number(run.attempt))),
    plain(names.worker, (run) => run.worker_id),
    plain(names.tag, (run) => run.tag),
    plain(names.labels, (run) => (run.tags ?? []).join(", ")),
    plain(names.codeVersion, (run) => run.code_version),
    plain(names.graphVersion, (run) => (run.graph_version == null ? null : number(run.graph_version))),
    plain(names.flowFile, (run) => run.workflow_yaml_sha256?.slice(0, 12)),
    plain(names.wheels, wheels),
    plain(t.value.run.error.title, (run) => run.error),
  ];
  // Roles are written out: browsers drop those of a table that is not displayed as one.
  return (
    <div class="table-scroll">
      <table class="compare-facts" role="table">
        <thead role="rowgroup">
          <tr role="row">
            <td role="cell" />
            <th scope="col" role="columnheader">
              {texts.first}
            </th>
            <th scope="col" role="columnheader">
              {texts.second}
            </th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {facts.filter((fact) => !fact.isEmpty).map((fact) => (
            <tr key={fact.name} role="row" class={fact.isEqual === false ? "compare-differs" : ""}>
              <th scope="row" role="rowheader">
                {fact.name}
                {fact.isEqual === false && (
                  <span class="compare-mark" title={texts.differs}>
                    <span aria-hidden="true">≠</span>
                    <span class="visually-hidden">{texts.differs}</span>
                  </span>
                )}
              </th>
              <td role="cell">{fact.a}</td>
              <td role="cell">{fact.b}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Changes below this share have no colour: times are never the same twice. */
const NOTABLE = 0.05;
/** A share of less says nothing. */
const SHARE_FROM_SEC = 0.1;

/** `+1.2s (+40%)`. */
function Change({ seconds, of }: { seconds: number; of: number }) {
  const texts = t.value.compare;
  if (Math.abs(seconds) < 0.0005) return <span class="muted small">{texts.same}</span>;
  const isSmall = Math.abs(seconds) < of * NOTABLE;
  const share = of >= SHARE_FROM_SEC ? ` (${seconds > 0 ? "+" : "−"}${percent(Math.abs(seconds / of))})` : "";
  return (
    <span class={`compare-change small ${isSmall ? "muted" : seconds > 0 ? "compare-slower" : "compare-faster"}`}>
      {seconds > 0 ? "▲ +" : "▼ −"}
      {duration(Math.abs(seconds))}
      {share}
    </span>
  );
}

function Steps({ a, b }: { a: RunSnapshot; b: RunSnapshot }) {
  const texts = t.value.compare;
  const [isSorted, setSorted] = useState(false);
  const inOrder = useMemo(() => stepsOf(a, b), [a, b]);
  const steps = useMemo(() => (isSorted ? byChange(inOrder) : inOrder), [inOrder, isSorted]);
  const most = longest(steps);
  if (steps.length === 0) return null;
  return (
    <section>
      <div class="view-head">
        <h2>
          {texts.steps} <span class="muted">{number(steps.length)}</span>
        </h2>
        <span class="spring" />
        <label>
          {texts.order}
          <select value={isSorted ? "change" : "order"} onChange={(event) => setSorted(event.currentTarget.value === "change")}>
            <option value="order">{texts.inOrder}</option>
            <option value="change">{texts.byChange}</option>
          </select>
        </label>
      </div>
      <div style={{ "--rows": steps.length }}>
        <VirtualList class="compare-steps" label={texts.steps} count={steps.length} rowHeight={ROW_HEIGHT} keyOf={(row) => steps[row]!.name}>
          {(row) => <StepRow step={steps[row]!} most={most} />}
        </VirtualList>
      </div>
    </section>
  );
}

function StepRow({ step, most }: { step: Step; most: number }) {
  const texts = t.value.compare;
  return (
    <div class="compare-step">
      <Name text={step.name} most={60} />
      <div class="compare-bars">
        {(["a", "b"] as const).map((key) => {
          const side = step[key];
          return (
            <div key={key} class="compare-bar-row">
              <span class="visually-hidden">{key === "a" ? texts.first : texts.second}</span>
              <span class={`compare-bar compare-${key}`} style={{ width: `${most > 0 ? ((side?.seconds ?? 0) / most) * 100 : 0}%` }} />
              <span class="number small">{side === null ? texts.absent : side.seconds === null ? statusText(side.state) : duration(side.seconds)}</span>
            </div>
          );
        })}
      </div>
      <div class="compare-step-end">
        {step.change !== null && <Change seconds={step.change} of={step.a!.seconds!} />}
        {step.a && step.b && step.a.state !== step.b.state && (
          <span class="compare-states">
            <Status status={step.a.state} /> <span aria-hidden="true">→</span> <Status status={step.b.state} />
          </span>
        )}
      </div>
    </div>
  );
}

const FIRST_DIFFERENCES = 50;

function Differences({ title, a, b }: { title: string; a: unknown; b: unknown }) {
  const texts = t.value.compare;
  const { differences, equal, isCut } = useMemo(() => compare(a, b), [a, b]);
  const [most, setMost] = useState(FIRST_DIFFERENCES);
  const [whole, setWhole] = useState<unknown>(undefined);
  return (
    <section class="card">
      <h2>{title}</h2>
      {differences.length === 0 ? (
        <p class="muted">{texts.noDifferences}</p>
      ) : (
        <div class="table-scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">{texts.place}</th>
                <th scope="col">{texts.first}</th>
                <th scope="col">{texts.second}</th>
              </tr>
            </thead>
            <tbody>
              {differences.slice(0, most).map((each) => (
                <tr key={pathText(each.path)}>
                  <th scope="row">
                    <code>
                      <bdi>{visible(cut(pathText(each.path), 120)) || texts.all}</bdi>
                    </code>
                  </th>
                  <ValueCell difference={each} side="a" onOpen={setWhole} />
                  <ValueCell difference={each} side="b" onOpen={setWhole} />
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="muted small">
        {texts.equal(number(equal))} {isCut && texts.cut(number(differences.length))}
      </p>
      {differences.length > most && (
        <button type="button" onClick={() => setMost(Infinity)}>
          {texts.allDifferences(number(differences.length))}
        </button>
      )}
      {whole !== undefined && (
        <Dialog title={texts.value} onClose={() => setWhole(undefined)}>
          <JsonView value={whole} fileName={title} />
        </Dialog>
      )}
    </section>
  );
}

const VALUE_CHARS = 120;

function ValueCell({ difference, side, onOpen }: { difference: Difference; side: "a" | "b"; onOpen: (value: unknown) => void }) {
  const texts = t.value.compare;
  const value = difference[side];
  if (value === undefined) return <td class="muted">{texts.absent}</td>;
  const text = JSON.stringify(value);
  const isLong = text.length > VALUE_CHARS;
  return (
    <td class={`compare-value compare-value-${side}`}>
      <code>
        <bdi>{visible(cut(text, VALUE_CHARS))}</bdi>
      </code>
      {isLong && (
        <button type="button" class="link small" onClick={() => onOpen(value)}>
          {texts.open}
        </button>
      )}
    </td>
  );
}
