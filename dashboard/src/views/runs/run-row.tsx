// The cells of one run, and the same as a card of two lines for narrow windows.

import type { ComponentChildren } from "preact";
import { cut, Name, visible } from "../../components/name";
import { RunLink, shortId } from "../../components/run-link";
import { isFinished, Status } from "../../components/status";
import { Duration, Time } from "../../components/time";
import { number } from "../../format";
import { t } from "../../texts";
import { NUMBERS, type Column } from "./columns";
import type { Run } from "./run-list";

const MAX_LABELS_SHOWN = 8;

export function PickBox({ run, isPicked, onPick }: { run: Run; isPicked: boolean; onPick: (id: string) => void }) {
  return (
    <label class="runs-pick">
      <input type="checkbox" checked={isPicked} aria-label={t.value.runs.pick(shortId(run.run_id))} onChange={() => onPick(run.run_id)} />
    </label>
  );
}

const CELLS: Record<Column, (run: Run) => ComponentChildren> = {
  status: (run) => <Status status={run.status} />,
  id: (run) => <RunLink id={run.run_id} />,
  flow: (run) => <Name text={run.flow_name ?? ""} />,
  tag: (run) => <Name text={run.tag ?? ""} />,
  labels: (run) => <Labels labels={run.tags ?? []} />,
  updated: (run) => <Time at={run.updated_at} />,
  submitted: (run) => <Time at={run.submitted_at} />,
  started: (run) => <Time at={run.start_time} />,
  duration: (run) => <Ran run={run} />,
  queued: (run) => <Duration from={run.submitted_at} to={run.start_time ?? run.end_time} isRunning={!isFinished(run.status)} />,
  worker: (run) => <Name text={run.worker_id ?? ""} />,
  attempt: (run) => <span class="number">{run.attempt ? number(run.attempt) : ""}</span>,
  error: (run) => <ErrorText run={run} />,
};

function Ran({ run }: { run: Run }) {
  return <Duration from={run.start_time} to={run.end_time} isRunning={!isFinished(run.status)} />;
}

function Labels({ labels }: { labels: readonly string[] }) {
  return (
    <span class="runs-labels" title={labels.map((label) => visible(cut(label, 80))).join("\n")}>
      {labels.slice(0, MAX_LABELS_SHOWN).map((label) => (
        <span key={label} class="runs-label">
          <Name text={label} most={40} />
        </span>
      ))}
    </span>
  );
}

/** The first line of the error; all of it on hover, and on the page of the run. */
function ErrorText({ run }: { run: Run }) {
  if (!run.error) return null;
  return (
    <bdi class="name runs-error" title={visible(run.error)}>
      {visible(cut(run.error.trimStart().split(/\r|\n/, 1)[0] ?? "", 300))}
    </bdi>
  );
}

interface RowProps {
  readonly run: Run;
  readonly columns: readonly Column[];
  readonly isPicked: boolean;
  readonly onPick: (id: string) => void;
}

export function RunCells({ run, columns, isPicked, onPick }: RowProps) {
  return (
    <>
      <div role="cell" class="runs-cell">
        <PickBox run={run} isPicked={isPicked} onPick={onPick} />
      </div>
      {columns.map((column) => (
        <div key={column} role="cell" class={NUMBERS.has(column) ? "runs-cell runs-number" : "runs-cell"}>
          {CELLS[column](run)}
        </div>
      ))}
    </>
  );
}

export function RunCard({ run, isPicked, onPick }: RowProps) {
  return (
    <div role="cell" class="runs-card">
      <PickBox run={run} isPicked={isPicked} onPick={onPick} />
      <div class="runs-card-line">
        <Status status={run.status} />
        <Name text={run.flow_name ?? ""} />
        <span class="spring" />
        <span class="muted small runs-card-fact">
          <Time at={run.updated_at} />
        </span>
      </div>
      <div class="runs-card-line small">
        <RunLink id={run.run_id} />
        {run.error ? <ErrorText run={run} /> : <span class="spring" />}
        <span class="runs-card-fact">
          <Ran run={run} />
        </span>
      </div>
    </div>
  );
}
