// A run as it changes: one stream from its present state to its end.

import { useEffect, useState } from "preact/hooks";
import type { Problem } from "../../api/problem";
import { credential } from "../../api/session";
import { follow, type StreamState } from "../../api/sse";
import { isOver, type RunSnapshot } from "./model";

export interface LiveRun {
  readonly run: RunSnapshot | null;
  readonly problem: Problem | null;
  /** `lost`: connecting again. `regained`: the stream goes on after a loss. */
  readonly connection: "steady" | "lost" | "regained";
}

/** A busy run changes hundreds of times a second; this is often enough to look at. */
const DRAW_MS = 150;

interface Update {
  readonly run_id: string;
  readonly snapshot: RunSnapshot;
}

export function useRun(runId: string): LiveRun {
  const [live, setLive] = useState<LiveRun>({ run: null, problem: null, connection: "steady" });
  useEffect(() => {
    setLive({ run: null, problem: null, connection: "steady" });
    const stop = new AbortController();
    let newest: RunSnapshot | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wasLost = false;
    const draw = (): void => {
      timer = undefined;
      // Not while the page is hidden: then the newest state is drawn when it is shown again.
      if (document.hidden) document.addEventListener("visibilitychange", draw, { once: true, signal: stop.signal });
      else setLive((before) => ({ ...before, run: newest }));
    };
    const path = (): string => `/runs/${encodeURIComponent(runId)}/watch?include=records`;
    const onState = (state: StreamState, problem: Problem | null): void => {
      if (state === "waiting") wasLost = true;
      if (state === "over") setLive((before) => ({ ...before, problem, connection: wasLost ? "regained" : "steady" }));
      else if (state === "waiting") setLive((before) => ({ ...before, problem, connection: "lost" }));
      else if (wasLost) setLive((before) => ({ ...before, problem: null, connection: "regained" }));
    };
    void follow(
      path,
      {
        onEvent: ({ event, data }) => {
          const { snapshot } = JSON.parse(data) as Update;
          // A heartbeat has no records: those of the last snapshot are still right.
          newest = event === "heartbeat" && newest ? { ...snapshot, task_records: newest.task_records ?? null } : snapshot;
          timer ??= setTimeout(draw, newest && isOver(newest) ? 0 : DRAW_MS);
        },
        onState,
      },
      { signal: stop.signal, isLast: ({ event }) => event === "snapshot" && newest !== null && isOver(newest) },
    );
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [runId, credential.value]);
  return live;
}
