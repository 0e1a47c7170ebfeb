// The stored lines of a run, and new ones as they are written, until the run is over.

import { useEffect, useRef, useState } from "preact/hooks";
import { asProblem, isAbort, type Problem } from "../../api/problem";
import { credential } from "../../api/session";
import { follow, type StreamEvent, type StreamState } from "../../api/sse";
import { seconds } from "../../format";
import { LineCache, type Line } from "./lines";
import { readLines } from "./read-lines";

const FIRST_LINES = 200;
const MOST_WAITING = 5000;

export interface Log {
  readonly cache: LineCache;
  /** How many lines there are; null until the gateway has said so. */
  readonly lines: number | null;
  readonly bytes: number;
  /** The run is over and all its lines are known. */
  readonly isComplete: boolean;
  readonly connection: StreamState | null;
  /** Whether the connection was lost and is there again. */
  readonly hasResumed: boolean;
  readonly problem: Problem | null;
  retry(): void;
}

type State = Omit<Log, "cache" | "retry">;

const UNKNOWN: State = { lines: null, bytes: 0, isComplete: false, connection: null, hasResumed: false, problem: null };

export function useLog(runId: string): Log {
  const cache = useRef(new LineCache());
  const [state, setState] = useState<State>(UNKNOWN);
  const [asked, setAsked] = useState(0);

  useEffect(() => {
    const stop = new AbortController();
    cache.current = new LineCache();
    setState(UNKNOWN);
    read(runId, cache.current, stop.signal, (change) => {
      if (!stop.signal.aborted) setState((before) => ({ ...before, ...change }));
    }).catch((error: unknown) => {
      if (!stop.signal.aborted && !isAbort(error)) setState((before) => ({ ...before, problem: asProblem(error) }));
    });
    return () => stop.abort();
  }, [runId, asked, credential.value]);

  return { ...state, cache: cache.current, retry: () => setAsked((before) => before + 1) };
}

async function read(runId: string, cache: LineCache, signal: AbortSignal, change: (change: Partial<State>) => void): Promise<void> {
  const tail = async (count: number): Promise<string> => {
    const page = await readLines(runId, { tail: count }, signal);
    cache.put(page.items);
    change({ lines: page.lines, bytes: page.bytes, isComplete: page.complete });
    return page.complete ? "" : page.next_token;
  };

  const token = await tail(FIRST_LINES);
  if (token === "") return;
  let waiting: Line[] = [];
  let frame = 0;
  let wasLost = false;
  // A fast log has hundreds of lines between two frames.
  const show = (): void => {
    frame = 0;
    cache.put(waiting);
    const last = waiting.at(-1);
    waiting = [];
    if (last) change({ lines: last.n });
  };
  signal.addEventListener("abort", () => cancelAnimationFrame(frame));
  const path = `/jobs/${encodeURIComponent(runId)}/logs/stream?sinceToken=${encodeURIComponent(token)}`;
  await follow(
    () => path,
    {
      onEvent(event) {
        const line = lineOf(event);
        if (line === null) return;
        waiting.push(line);
        // A hidden page draws no frames; what is left out here is read again when it comes in sight.
        if (waiting.length > 2 * MOST_WAITING) waiting = waiting.slice(-MOST_WAITING);
        frame ||= requestAnimationFrame(show);
      },
      onState(connection, problem) {
        wasLost ||= connection === "waiting";
        const isOpen = connection === "open";
        change({ connection, hasResumed: wasLost && isOpen, problem: connection === "over" ? problem : null });
      },
    },
    { signal, isLast: (event) => event.event === "end" },
  );
  if (!signal.aborted) await tail(1);
}

/** The line of a `logEntry` event; null for other events. */
export function lineOf(event: StreamEvent): Line | null {
  if (event.event !== "logEntry") return null;
  const { timestamp, ...entry } = JSON.parse(event.data) as Omit<Line, "ts"> & { timestamp: string };
  return { ...entry, ts: seconds(timestamp) ?? 0 };
}
