// When each task waited and ran, as bars over time.

import { useMemo } from "preact/hooks";
import { now } from "../../clock";
import { Name } from "../../components/name";
import { Empty } from "../../components/notice";
import { Status, statusText } from "../../components/status";
import { exactTime } from "../../components/time";
import { VirtualList } from "../../components/virtual-list";
import { duration, number } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { useEdges } from "./graph-tab";
import type { TabProps } from "./model";
import { type Bar, type Lane, needsEvents, ticks, timelineOf } from "./timeline";
import { MAX_EVENTS, useMoments } from "./use-moments";

/** 2rem in the styles of the list, whose root font has 15 pixels. */
const ROW_HEIGHT = 30;
const MOST_TICKS = 6;
const LEGEND = ["queued", "attempt", "input"] as const;

export function TimelineTab({ run }: TabProps) {
  const texts = t.value.run.timeline;
  const { edges } = useEdges(run);
  const { moments, isCut } = useMoments(run, needsEvents(run));
  const before = useMemo(() => {
    const all = new Map<string, string[]>();
    if (edges.length > 0) for (const node of Object.keys(run.tasks)) all.set(node, []);
    for (const { from, to } of edges) all.get(to)?.push(from);
    return all;
  }, [edges, run.tasks]);
  const timeline = useMemo(() => timelineOf(run, before, moments), [run, before, moments]);
  if (timeline.lanes.every((lane) => lane.bars.length === 0)) return <Empty title={texts.empty} />;
  const from = timeline.from;
  // Read only while the run goes on: a finished one is not drawn again.
  const to = timeline.to ?? Math.max(now.value, ...timeline.lanes.map((lane) => lane.bars.at(-1)?.to ?? from));
  const span = Math.max(to - from, 0.001);
  const marks = ticks(span, MOST_TICKS);
  return (
    <section class="timeline" style={{ "--rows": timeline.lanes.length }}>
      <ul class="timeline-legend">
        {LEGEND.map((kind) => (
          <li key={kind}>
            <span class={`timeline-swatch timeline-${kind} timeline-running`} aria-hidden="true" />
            {texts.legend[kind]}
          </li>
        ))}
      </ul>
      {isCut && <p class="muted small">{texts.cut(number(MAX_EVENTS))}</p>}
      <div class="timeline-head" aria-hidden="true">
        <span>{texts.task}</span>
        <span class="timeline-axis">
          {marks.map((mark) => (
            <span key={mark} class="timeline-tick" style={{ insetInlineStart: `${(mark / span) * 100}%` }}>
              {mark === 0 ? "0" : duration(mark)}
            </span>
          ))}
        </span>
        <span class="number">{texts.duration}</span>
      </div>
      <VirtualList
        class="timeline-lanes"
        label={texts.lanes}
        count={timeline.lanes.length}
        rowHeight={ROW_HEIGHT}
        keyOf={(row) => timeline.lanes[row]!.node}
      >
        {(row) => <LaneRow lane={timeline.lanes[row]!} runId={run.run_id} from={from} to={to} marks={marks} />}
      </VirtualList>
    </section>
  );
}

function LaneRow({ lane, runId, from, to, marks }: { lane: Lane; runId: string; from: number; to: number; marks: readonly number[] }) {
  const span = Math.max(to - from, 0.001);
  const ran = lane.bars.filter((bar) => bar.kind === "attempt").reduce((sum, bar) => sum + ((bar.to ?? to) - bar.from), 0);
  return (
    <div class="timeline-lane">
      <a href={hashOf(["runs", runId, "graph"], { node: lane.node })}>
        <Name text={lane.node} most={60} />
      </a>
      <span class="timeline-track">
        {marks.map((mark) => (
          <span key={mark} class="timeline-line" style={{ insetInlineStart: `${(mark / span) * 100}%` }} />
        ))}
        {lane.bars.map((bar) => (
          <BarMark key={`${bar.kind}${bar.from}`} bar={bar} progress={lane.progress} from={from} to={to} />
        ))}
      </span>
      <span class="timeline-end">
        <Status status={lane.state} />
        <span class="number">{lane.bars.some((bar) => bar.kind === "attempt") ? duration(Math.max(0, ran)) : "–"}</span>
      </span>
    </div>
  );
}

function BarMark({ bar, progress, from, to }: { bar: Bar; progress: number | undefined; from: number; to: number }) {
  const texts = t.value.run.timeline;
  const span = Math.max(to - from, 0.001);
  const end = bar.to ?? to;
  const title = [
    bar.attempt > 1 ? texts.attempt(bar.attempt) : "",
    texts.bar(texts.legend[bar.kind], statusText(bar.state), duration(Math.max(0, end - bar.from))),
    exactTime(bar.from),
  ];
  return (
    <span
      class={`timeline-bar timeline-${bar.kind} timeline-${bar.state.toLowerCase()}`}
      title={title.filter(Boolean).join("\n")}
      style={{ insetInlineStart: `${((bar.from - from) / span) * 100}%`, width: `${(Math.max(0, end - bar.from) / span) * 100}%` }}
    >
      {progress !== undefined && bar.to === null && bar.kind === "attempt" && <span class="timeline-progress" style={{ width: `${progress}%` }} />}
    </span>
  );
}
