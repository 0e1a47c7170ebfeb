// The events of the run, page by page as they are scrolled to, in either order.

import { useEffect, useRef, useState } from "preact/hooks";
import { asProblem, isAbort, type Problem } from "../../api/problem";
import { JsonView } from "../../components/json";
import { CallMenu, pythonText, quoted } from "../../components/call-menu";
import { Dialog } from "../../components/dialog";
import { cut, Name, visible } from "../../components/name";
import { Empty, Loading, ProblemNotice } from "../../components/notice";
import { exactTime, Time } from "../../components/time";
import { VirtualList } from "../../components/virtual-list";
import { number, seconds } from "../../format";
import { place, setQuery } from "../../router";
import { t } from "../../texts";
import { eventsPage, type RunEvent } from "./events";
import type { TabProps } from "./model";
import { MomentSlider, setMoment } from "./moment";

const PAGE = 200;
const ROW_HEIGHT = 36;
/** The next page is asked for when so few rows are left below. */
const AHEAD = 40;

interface Pages {
  readonly items: readonly RunEvent[];
  readonly next: string | null;
  readonly problem: Problem | null;
}

const NOT_READ: Pages = { items: [], next: "", problem: null };

/** `readMore` reads the next page, once at a time. */
function useEvents(runId: string, order: "asc" | "desc", nodeId: string | null, turn: number): Pages & { readMore: () => void } {
  const [pages, setPages] = useState<Pages>(NOT_READ);
  const newest = useRef(pages);
  newest.current = pages;
  const reading = useRef<AbortController | null>(null);
  const readMore = (): void => {
    const { next } = newest.current;
    if (reading.current || next === null) return;
    const stop = (reading.current = new AbortController());
    const query = { limit: PAGE, order, ...(nodeId && { nodeId }), ...(next && { cursor: next }) };
    eventsPage(runId, query, stop.signal)
      .then((page) => setPages((before) => ({ items: [...before.items, ...page.items], next: page.nextCursor, problem: null })))
      .catch((error: unknown) => {
        if (!isAbort(error)) setPages((before) => ({ ...before, problem: asProblem(error) }));
      })
      .finally(() => {
        if (reading.current === stop) reading.current = null;
      });
  };
  useEffect(() => {
    newest.current = NOT_READ;
    setPages(NOT_READ);
    readMore();
    return () => {
      reading.current?.abort();
      reading.current = null;
    };
  }, [runId, order, nodeId, turn]);
  return { ...pages, readMore };
}

export function EventsTab({ run, shown }: TabProps) {
  const texts = t.value.run.events;
  const { query } = place.value;
  const order = query.get("order") === "asc" ? "asc" : "desc";
  const nodeId = query.get("nodeId");
  const [turn, setTurn] = useState(0);
  const { items, next, problem, readMore } = useEvents(run.run_id, order, nodeId, turn);
  const [open, setOpen] = useState<RunEvent | null>(null);
  const newestRead = order === "desc" ? items[0] : items.at(-1);
  const hasNewer = nodeId === null && newestRead !== undefined && (order === "desc" || next === null) && newestRead.version < run.version;
  const change = (name: string, value: string | null): void => {
    const changed = new URLSearchParams(query);
    if (value) changed.set(name, value);
    else changed.delete(name);
    setQuery(changed);
  };
  return (
    <section class="events">
      <MomentSlider run={run} shown={shown} />
      <div class="events-tools">
        <label>
          {texts.order}
          <select value={order} onChange={(event) => change("order", event.currentTarget.value)}>
            <option value="desc">{texts.newestFirst}</option>
            <option value="asc">{texts.oldestFirst}</option>
          </select>
        </label>
        <label>
          {texts.node}
          <input
            type="search"
            list="run-nodes"
            placeholder={texts.nodePlaceholder}
            value={nodeId ?? ""}
            onChange={(event) => change("nodeId", event.currentTarget.value)}
          />
        </label>
        <datalist id="run-nodes">
          {Object.keys(run.tasks)
            .slice(0, MOST_SUGGESTED)
            .map((name) => (
              <option key={name} value={name} />
            ))}
        </datalist>
        {hasNewer && (
          <button type="button" onClick={() => setTurn(turn + 1)}>
            {texts.newer}
          </button>
        )}
        <span class="spring" />
        <span class="muted small" role="status">
          {texts.loaded(number(items.length) + (next === null ? "" : "+"))}
        </span>
        <CallMenu calls={() => callsOf(run.run_id, order, nodeId)} />
      </div>
      {problem && <ProblemNotice problem={problem} hasData={items.length > 0} onRetry={readMore} />}
      {items.length === 0 && !problem ? (
        next === null ? (
          <Empty title={texts.empty} />
        ) : (
          <Loading />
        )
      ) : (
        <VirtualList class="events-list" label={texts.list} count={items.length + (next === null ? 0 : 1)} rowHeight={ROW_HEIGHT}>
          {(row) => {
            const event = items[row];
            if (!event) return <More onShown={readMore} />;
            return (
              <>
                {row === items.length - AHEAD && <More onShown={readMore} isQuiet />}
                <EventRow event={event} onOpen={() => setOpen(event)} />
              </>
            );
          }}
        </VirtualList>
      )}
      {open && <EventDialog event={open} onClose={() => setOpen(null)} />}
    </section>
  );
}

const MOST_SUGGESTED = 500;

function callsOf(runId: string, order: "asc" | "desc", nodeId: string | null) {
  const query = new URLSearchParams({ order, ...(nodeId && { nodeId }) }).toString();
  return {
    path: `/executions/${encodeURIComponent(runId)}/events?${query}`,
    client: `events ${quoted(runId)}`,
    python: `for event in client.iter_events(${pythonText(runId)}, order=${pythonText(order)}${nodeId ? `, node_id=${pythonText(nodeId)}` : ""}):\n    print(event)`,
  };
}

function More({ onShown, isQuiet = false }: { onShown: () => void; isQuiet?: boolean }) {
  useEffect(onShown);
  return isQuiet ? null : <p class="muted events-more">{t.value.run.events.more}</p>;
}

function nodeOf(event: RunEvent): string | null {
  const { nodeId } = event.payload;
  return typeof nodeId === "string" ? nodeId : null;
}

function actorOf(event: RunEvent): string {
  const { kind, id } = event.actor as { kind?: string; id?: string | null };
  const names = t.value.run.events.actors;
  const name = kind !== undefined && kind in names ? names[kind as keyof typeof names] : (kind ?? "");
  return id ? `${name} ${visible(cut(id, 80))}` : name;
}

/** The place of an event in the colours of what it says. */
function toneOf(type: string): string {
  if (type.endsWith("FAILED")) return "failed";
  if (type.endsWith("SUCCEEDED") || type.endsWith("COMPLETED")) return "completed";
  if (type.includes("CANCEL")) return "cancelled";
  if (type.endsWith("STARTED") || type.endsWith("PROGRESS_REPORTED") || type.endsWith("RESUMED")) return "running";
  return type.endsWith("WAITING") ? "waiting" : "pending";
}

function EventRow({ event, onOpen }: { event: RunEvent; onOpen: () => void }) {
  const node = nodeOf(event);
  return (
    <button type="button" class="events-row" onClick={onOpen}>
      <span class="events-time number">
        <Time at={event.occurredAt} as="clock" />
      </span>
      <code class={`events-type events-${toneOf(event.type)}`}>{visible(cut(event.type, 60))}</code>
      <span class="events-node">{node !== null && <Name text={node} />}</span>
      <bdi class="events-actor muted">{actorOf(event)}</bdi>
      <code class="events-request muted">{event.requestId ?? ""}</code>
    </button>
  );
}

function EventDialog({ event, onClose }: { event: RunEvent; onClose: () => void }) {
  const texts = t.value.run.events;
  const node = nodeOf(event);
  const facts: [string, string][] = [
    [texts.actor, actorOf(event)],
    [texts.command, event.command],
    [texts.version, String(event.version)],
    [texts.requestId, event.requestId ?? ""],
  ];
  return (
    <Dialog title={event.type} onClose={onClose}>
      <p class="pre-line">{exactTime(seconds(event.occurredAt) ?? 0)}</p>
      <dl class="run-facts">
        {node !== null && (
          <div>
            <dt>{texts.node}</dt>
            <dd>
              <Name text={node} />
            </dd>
          </div>
        )}
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <bdi>{visible(cut(value, 120))}</bdi>
              </dd>
            </div>
          ))}
      </dl>
      <h3>{texts.payload}</h3>
      <JsonView value={event.payload} fileName={event.type} />
      <div>
        <button
          type="button"
          onClick={() => {
            setMoment(String(event.version));
            onClose();
          }}
        >
          {texts.at}
        </button>
      </div>
    </Dialog>
  );
}
