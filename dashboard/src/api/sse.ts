// Server-sent events by fetch, which can send credentials. Reconnects and resumes behind the last event.

import { fetchApi } from "./client";
import { asProblem, type Problem } from "./problem";

export interface StreamEvent {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** `open`: events arrive. `waiting`: connecting again after a loss. `over`: the server ended the stream. */
export type StreamState = "connecting" | "open" | "waiting" | "over";

export interface StreamHandlers {
  onEvent(event: StreamEvent): void;
  onState?(state: StreamState, problem: Problem | null): void;
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
/** A browser has six connections to a gateway for all its tabs: a tab that stays hidden gives its own back. */
const HIDDEN_MS = 5000;

/** Splits a stream of bytes into events (WHATWG HTML, section 9.2.6). */
export class EventParser {
  private readonly decoder = new TextDecoder();
  private rest = "";
  private id = "";
  private event = "";
  private data: string[] = [];

  push(bytes: Uint8Array): StreamEvent[] {
    // A lone carriage return at the end may be half of a line end.
    const text = this.rest + this.decoder.decode(bytes, { stream: true });
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    const found: StreamEvent[] = [];
    for (const line of lines) {
      if (line !== "") this.field(line);
      else if (this.data.length > 0) {
        found.push({ id: this.id, event: this.event || "message", data: this.data.join("\n") });
        this.event = "";
        this.data = [];
      }
    }
    return found;
  }

  private field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "event") this.event = value;
    else if (name === "id" && !value.includes("\0")) this.id = value;
  }
}

/**
 * Follows a stream until it is over, refused for good (a 4xx) or aborted by the signal. While the page is hidden it is
 * closed, and goes on when the page is shown again.
 * `path` is asked anew for each connection; `Last-Event-ID` is sent once an event had an id.
 * `isLast`: whether the stream is complete with this event; without it a stream that ends is opened again.
 */
export async function follow(
  path: () => string,
  handlers: StreamHandlers,
  { signal, isLast, lastEventId = "" }: { signal: AbortSignal; isLast: (event: StreamEvent) => boolean; lastEventId?: string },
): Promise<void> {
  let failures = 0;
  for (;;) {
    await untilShown(signal);
    if (signal.aborted) return;
    let problem: Problem | null = null;
    const connection = connectionWhileShown(signal);
    try {
      handlers.onState?.(failures === 0 ? "connecting" : "waiting", null);
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (lastEventId) headers["Last-Event-ID"] = lastEventId;
      const response = await fetchApi(path(), { headers, signal: connection.signal });
      if (response.status === 204 || response.body === null) {
        handlers.onState?.("over", null);
        return;
      }
      handlers.onState?.("open", null);
      const parser = new EventParser();
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        failures = 0;
        for (const event of parser.push(value)) {
          if (event.id) lastEventId = event.id;
          handlers.onEvent(event);
          if (isLast(event)) {
            void reader.cancel();
            handlers.onState?.("over", null);
            return;
          }
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (connection.signal.aborted) continue;
      problem = asProblem(error);
      if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) {
        handlers.onState?.("over", problem);
        return;
      }
    } finally {
      connection.forget();
    }
    failures += 1;
    handlers.onState?.("waiting", problem);
    const backoff = Math.min(FIRST_DELAY_MS * 2 ** (failures - 1), LONGEST_DELAY_MS) * (0.75 + Math.random() / 2);
    await pause(Math.max(backoff, (problem?.retryAfterSec ?? 0) * 1000), signal);
  }
}

function isHidden(): boolean {
  return typeof document !== "undefined" && document.hidden;
}

/** Returns when the page is in sight, or when aborted. */
function untilShown(signal: AbortSignal): Promise<void> {
  if (!isHidden() || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const look = (): void => {
      if (isHidden() && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

/** A signal that aborts with the given one, and when the page has been hidden for a while. */
function connectionWhileShown(signal: AbortSignal): { signal: AbortSignal; forget(): void } {
  const connection = new AbortController();
  const page = typeof document === "undefined" ? null : document;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = (): void => connection.abort();
  const onVisibility = (): void => {
    clearTimeout(timer);
    if (isHidden()) timer = setTimeout(end, HIDDEN_MS);
  };
  signal.addEventListener("abort", end);
  page?.addEventListener("visibilitychange", onVisibility);
  return {
    signal: connection.signal,
    forget() {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      page?.removeEventListener("visibilitychange", onVisibility);
    },
  };
}

/** Returns after the time, or when aborted. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
