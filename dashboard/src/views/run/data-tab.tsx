// What went into the run and came out of it: params, result, and the output or error of each task.

import { useMemo, useState } from "preact/hooks";
import { api, body } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CallMenu, pythonText, quoted } from "../../components/call-menu";
import { JsonView } from "../../components/json";
import { LongText, Name } from "../../components/name";
import { Loading, Notice, ProblemNotice } from "../../components/notice";
import { Status } from "../../components/status";
import { duration, number } from "../../format";
import { own } from "../../own";
import { t } from "../../texts";
import { isOver, recordsOf, type RunSnapshot, type TabProps, type TaskRecord, taskState } from "./model";

const FIRST_TASKS = 50;
const MORE_TASKS = 200;

export function DataTab({ shown: run }: TabProps) {
  const texts = t.value.run.data;
  const hasParams = Object.keys(run.params).length > 0;
  const hasResult = run.result !== undefined;
  return (
    <div class="run-data">
      <section class="card">
        <h2>{texts.params}</h2>
        {hasParams ? <JsonView value={run.params} fileName={`${texts.file.params}-${run.run_id}`} /> : <p class="muted">{texts.noParams}</p>}
      </section>
      <section class="card">
        <div class="view-head">
          <h2>{texts.result}</h2>
          <span class="spring" />
          <CallMenu calls={() => ({ path: `/runs/${encodeURIComponent(run.run_id)}`, client: `result ${quoted(run.run_id)}`, python: `print(client.get_run(${pythonText(run.run_id)})["result"])` })} />
        </div>
        {run.result_truncated && <Notice kind="warning">{texts.resultTruncated}</Notice>}
        {hasResult ? (
          <JsonView value={run.result} fileName={`${texts.file.result}-${run.run_id}`} />
        ) : (
          <p class="muted">{isOver(run) ? texts.noResultEnd : texts.noResult}</p>
        )}
      </section>
      {Object.keys(run.tasks).length > 0 && <Tasks run={run} />}
    </div>
  );
}

function Tasks({ run }: { run: RunSnapshot }) {
  const texts = t.value.run.data;
  const [sought, setSought] = useState("");
  const [most, setMost] = useState(FIRST_TASKS);
  const [isAsked, setAsked] = useState(false);
  const whole = useQuery(`whole ${run.run_id} ${run.version}`, (signal) => wholeRecords(run.run_id, run.version, signal), { isEnabled: isAsked });
  const records = { ...recordsOf(run), ...whole.data };
  const names = useMemo(() => {
    const lower = sought.toLowerCase();
    return Object.keys(run.tasks).filter((name) => name.toLowerCase().includes(lower));
  }, [run.tasks, sought]);
  const left = Math.min(MORE_TASKS, names.length - most);
  return (
    <section class="card">
      <div class="view-head">
        <h2>
          {texts.tasks} <span class="muted">{number(names.length)}</span>
        </h2>
        {Object.keys(run.tasks).length > 10 && (
          <input type="search" placeholder={texts.find} aria-label={texts.find} value={sought} onInput={(event) => setSought(event.currentTarget.value)} />
        )}
      </div>
      {run.task_records_truncated && !whole.data && (
        <Notice kind="warning">
          <p>{texts.truncated}</p>
          {whole.isLoading && isAsked ? (
            <Loading />
          ) : (
            <button type="button" onClick={() => setAsked(true)}>
              {texts.loadAll}
            </button>
          )}
        </Notice>
      )}
      {whole.problem && <ProblemNotice problem={whole.problem} onRetry={whole.refresh} />}
      <ul class="run-outputs">
        {names.slice(0, most).map((name) => (
          <li key={name}>
            <TaskData name={name} state={taskState(run.tasks[name]!, own(records, name))} record={own(records, name)} />
          </li>
        ))}
      </ul>
      {left > 0 && (
        <button type="button" onClick={() => setMost(most + MORE_TASKS)}>
          {texts.more(number(left))}
        </button>
      )}
    </section>
  );
}

/** The outputs that the snapshot could not hold, read from the events at this version. */
async function wholeRecords(runId: string, version: number, signal: AbortSignal): Promise<Record<string, TaskRecord>> {
  const { nodes } = await body(
    api.GET("/executions/{executionId}", { params: { path: { executionId: runId }, query: { include: "records", at: String(version) } }, signal }),
  );
  return Object.fromEntries(
    nodes.map((node) => [
      node.nodeId,
      {
        state: node.status,
        attempt: node.attempt,
        ...(node.output !== undefined && { output: node.output }),
        ...(node.error && { error: String(node.error["message"]), error_code: String(node.error["code"]) }),
        ...(typeof node.error?.["traceback"] === "string" && { traceback: node.error["traceback"] }),
      } as TaskRecord,
    ]),
  );
}

function TaskData({ name, state, record }: { name: string; state: string; record: TaskRecord | undefined }) {
  const texts = t.value.run;
  const [isOpen, setOpen] = useState(false);
  const hasData = record?.output !== undefined || record?.error !== undefined;
  const took = record?.started_at !== undefined && record.ended_at !== undefined ? duration(record.ended_at - record.started_at) : "";
  const head = (
    <>
      <Name text={name} />
      <Status status={state} />
      <span class="number muted">{took}</span>
      {!hasData && <span class="muted small">{texts.data.noOutput}</span>}
    </>
  );
  if (!hasData) return <div class="run-output">{head}</div>;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="run-output">{head}</summary>
      {isOpen && record.error !== undefined && (
        <>
          {record.error_code && <code>{record.error_code}</code>}
          <LongText text={record.error} />
        </>
      )}
      {isOpen && record.traceback !== undefined && <LongText text={record.traceback} />}
      {isOpen && record.output !== undefined && <JsonView value={record.output} fileName={`${texts.data.file.output}-${name}`} />}
    </details>
  );
}
