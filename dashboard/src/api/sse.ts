// Server-sent events by fetch, which can send credentials. Reconnects and resumes behind the last event.

import { fetchApi } from "./client";
import { asProblem, isAbort, type Problem } from "./problem";

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
 * Follows a stream until it is over, refused for good (a 4xx) or aborted by the signal.
 * `path` is asked anew for each connection; `Last-Event-ID` is sent once an event had an id.
 * `isLast`: whether the stream is complete with this event; without it a stream that ends is opened again.
 */
export async function follow(
  path: () => string,
  handlers: StreamHandlers,
  { signal, isLast, lastEventId = "" }: { signal: AbortSignal; isLast: (event: StreamEvent) => boolean; lastEventId?: string },
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    let problem: Problem | null = null;
    try {
      handlers.onState?.(failures === 0 ? "connecting" : "waiting", null);
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (lastEventId) headers["Last-Event-ID"] = lastEventId;
      const response = await fetchApi(path(), { headers, signal });
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
      if (signal.aborted || isAbort(error)) return;
      problem = asProblem(error);
      if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) {
        handlers.onState?.("over", problem);
        return;
      }
    }
    failures += 1;
    handlers.onState?.("waiting", problem);
    const backoff = Math.min(FIRST_DELAY_MS * 2 ** (failures - 1), LONGEST_DELAY_MS) * (0.75 + Math.random() / 2);
    await pause(Math.max(backoff, (problem?.retryAfterSec ?? 0) * 1000), signal);
  }
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
