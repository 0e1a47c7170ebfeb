// The table: only the rows in sight are in the document, and they do not move while they are read.

import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { useShortcuts } from "../../components/shortcuts";
import { number } from "../../format";
import { hashOf, navigate } from "../../router";
import { t } from "../../texts";
import { leastWidthOf, NUMBERS, tracksOf, type Column } from "./columns";
import { RunCard, RunCells } from "./run-row";
import type { Run } from "./run-list";
import type { RunsModel } from "./runs-model";
import { scrollTo, windowOf, type RowWindow } from "./window";

const ROW_HEIGHT = 34;
const CARD_HEIGHT = 66;
const HEAD_HEIGHT = 34;
/** Rows before the end at which the next page is read. */
const READ_AHEAD = 100;
const NARROW = "(max-width: 40rem)";

interface Props {
  readonly model: RunsModel;
  readonly revision: number;
  readonly columns: readonly Column[];
  readonly picked: readonly string[];
  readonly onPick: (id: string) => void;
}

export function RunsTable({ model, columns, picked, onPick }: Props) {
  const texts = t.value.runs;
  const scroller = useRef<HTMLDivElement>(null);
  const isPointerOver = useRef(false);
  const isNarrow = useMedia(NARROW);
  const rowHeight = isNarrow ? CARD_HEIGHT : ROW_HEIGHT;
  const headHeight = isNarrow ? 0 : HEAD_HEIGHT;
  const { list } = model;
  const count = list.order.length;
  const shown = useWindow(scroller, rowHeight, count, model.left);
  const [activeId, setActiveId] = useState(model.left.activeId);
  model.left.activeId = activeId;
  // The row to focus once it is in the document.
  const toFocus = useRef<string | null>(null);

  model.mayMove = () => {
    const box = scroller.current;
    return box !== null && box.scrollTop === 0 && !isPointerOver.current && !box.contains(document.activeElement);
  };
  useEffect(() => {
    if (model.isStarted && model.hasMore && !model.isLoading && model.problem === null && shown.end >= count - READ_AHEAD) void model.loadMore();
  });
  useLayoutEffect(() => {
    if (toFocus.current === null) return;
    const link = scroller.current?.querySelector<HTMLElement>(`[data-run="${CSS.escape(toFocus.current)}"] a`);
    if (link) {
      link.focus({ preventScroll: true });
      toFocus.current = null;
    }
  });

  const move = (step: number): void => {
    const box = scroller.current;
    if (box === null || count === 0) return;
    const found = activeId === null ? -1 : list.order.indexOf(activeId);
    const index = found < 0 ? shownFirst(box, rowHeight) : Math.max(0, Math.min(count - 1, found + step));
    const id = list.order[index] ?? null;
    setActiveId(id);
    toFocus.current = id;
    box.scrollTop = scrollTo(index, box.scrollTop, box.clientHeight - headHeight, rowHeight);
  };
  const showWaiting = (): void => {
    void model.showWaiting().then(() => {
      scroller.current?.scrollTo({ top: 0 });
    });
  };
  useShortcuts([
    { keys: ["j"], text: texts.keys.next, run: () => move(1) },
    { keys: ["k"], text: texts.keys.previous, run: () => move(-1) },
    {
      keys: ["Enter"],
      text: texts.keys.open,
      run: (event) => {
        // A focused control has its own meaning of Enter.
        const control = event.target instanceof Element ? event.target.closest<HTMLElement>("a, button, summary") : null;
        if (control) control.click();
        else if (activeId !== null) navigate(hashOf(["runs", activeId]));
      },
    },
    { keys: ["n"], text: texts.keys.newest, run: showWaiting },
  ]);

  const rows: VNode[] = [];
  for (let index = shown.first; index < shown.end; index += 1) {
    const run = list.at(index);
    if (run) {
      const isPicked = picked.includes(run.run_id);
      rows.push(<Row key={run.run_id} {...{ run, index, rowHeight, columns, isNarrow, isPicked, onPick }} isActive={run.run_id === activeId} onFocus={setActiveId} />);
    }
  }
  return (
    <div class="runs-frame">
      <WaitingBar waiting={list.waiting.size} isBehind={model.isBehind} onShow={showWaiting} />
      <div
        ref={scroller}
        class={`runs-table ${isNarrow ? "runs-narrow" : ""}`}
        role="table"
        aria-label={texts.table}
        aria-rowcount={model.hasMore ? -1 : count + 1}
        tabIndex={0}
        style={{ "--runs-tracks": tracksOf(columns), "--runs-width": isNarrow ? "0" : leastWidthOf(columns) }}
        onPointerEnter={(event) => (isPointerOver.current = event.pointerType === "mouse")}
        onPointerLeave={() => (isPointerOver.current = false)}
        onKeyDown={(event) => {
          const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
          if (step === 0 || event.altKey || event.ctrlKey || event.metaKey) return;
          event.preventDefault();
          move(step);
        }}
      >
        <div class="runs-head" role="rowgroup">
          <div class="runs-line" role="row" aria-rowindex={1}>
            <div role="columnheader">
              <span class="visually-hidden">{texts.columns.pick}</span>
            </div>
            {isNarrow ? null : columns.map((column) => (
              <div key={column} role="columnheader" class={NUMBERS.has(column) ? "number" : ""} aria-sort={column === "updated" ? "descending" : undefined}>
                {texts.columns[column]}
                {column === "updated" && <span aria-hidden="true"> ↓</span>}
              </div>
            ))}
          </div>
        </div>
        <div class="virtual-space" role="rowgroup" style={{ height: `${count * rowHeight}px` }}>
          {rows}
        </div>
        <p class="runs-end muted small" aria-hidden="true">
          {model.hasMore ? (count === 0 ? texts.searching : texts.loadingMore) : texts.end}
        </p>
      </div>
    </div>
  );
}

interface RowProps {
  readonly run: Run;
  readonly index: number;
  readonly rowHeight: number;
  readonly columns: readonly Column[];
  readonly isNarrow: boolean;
  readonly isPicked: boolean;
  readonly isActive: boolean;
  readonly onPick: (id: string) => void;
  readonly onFocus: (id: string) => void;
}

function Row({ run, index, rowHeight, columns, isNarrow, isPicked, isActive, onPick, onFocus }: RowProps) {
  // The same node while nothing of it changes: scrolling then only moves rows.
  const cells = useMemo(() => {
    const Cells = isNarrow ? RunCard : RunCells;
    return <Cells run={run} columns={columns} isPicked={isPicked} onPick={onPick} />;
  }, [run, columns, isNarrow, isPicked, onPick, t.value]);
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      class={`virtual-row runs-line ${isActive ? "runs-active" : ""} ${isPicked ? "runs-picked" : ""}`}
      data-run={run.run_id}
      style={{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}
      onFocusIn={() => onFocus(run.run_id)}
      onClick={(event) => {
        // All of the row is a way to the run for the mouse, but text can be selected, and controls stay what they are.
        if (event.target instanceof Element && event.target.closest("a, label, input")) return;
        if (event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !getSelection()?.toString()) navigate(hashOf(["runs", run.run_id]));
      }}
    >
      {cells}
    </div>
  );
}

function WaitingBar({ waiting, isBehind, onShow }: { waiting: number; isBehind: boolean; onShow: () => void }) {
  const texts = t.value.runs;
  return (
    <div class="runs-waiting" role="status">
      {(waiting > 0 || isBehind) && (
        <button type="button" onClick={onShow}>
          <span aria-hidden="true">↑ </span>
          {isBehind ? texts.behind : waiting === 1 ? texts.waitingOne : texts.waiting(number(waiting))}
        </button>
      )}
    </div>
  );
}

function shownFirst(box: HTMLElement, rowHeight: number): number {
  return Math.ceil(box.scrollTop / rowHeight);
}

/** The rows in sight; draws again only when they are others. */
function useWindow(scroller: { current: HTMLElement | null }, rowHeight: number, count: number, left: { scrollTop: number }): RowWindow {
  const [, draw] = useReducer((drawn: number) => drawn + 1, 0);
  const place = useRef({ top: 0, height: 0 });
  const { first, end } = windowOf(place.current.top, place.current.height, rowHeight, count);
  const drawn = useRef({ first, end, rowHeight, count });
  drawn.current = { first, end, rowHeight, count };
  useLayoutEffect(() => {
    const box = scroller.current;
    if (box === null) return undefined;
    box.scrollTop = left.scrollTop;
    const look = (): void => {
      place.current = { top: box.scrollTop, height: box.clientHeight };
      left.scrollTop = box.scrollTop;
      const before = drawn.current;
      const next = windowOf(box.scrollTop, box.clientHeight, before.rowHeight, before.count);
      if (next.first !== before.first || next.end !== before.end) draw(undefined);
    };
    const observer = new ResizeObserver(look);
    observer.observe(box);
    box.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      box.removeEventListener("scroll", look);
    };
  }, []);
  return { first, end };
}

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const note = (): void => setMatches(media.matches);
    media.addEventListener("change", note);
    return () => media.removeEventListener("change", note);
  }, [query]);
  return matches;
}
