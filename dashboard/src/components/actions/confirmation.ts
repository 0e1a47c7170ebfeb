// One confirmed action: asked, sent once however often it is pressed, and repeated with the same idempotency key while
// its outcome is unknown.
//
//     asking ──▶ sending ──▶ done
//                 │  ▲ ├───▶ unknown   no answer, or one that says nothing: only repeated, with the same key
//                 │  └─┘───▶ refused   nothing was done: it may be changed, and has a new key then

import { signal, type ReadonlySignal } from "@preact/signals";
import { asProblem, type Problem } from "../../api/problem";

export type Phase = "asking" | "sending" | "unknown" | "refused" | "done";

export interface Confirmation<T> {
  readonly phase: ReadonlySignal<Phase>;
  readonly problem: ReadonlySignal<Problem | null>;
  readonly outcome: ReadonlySignal<T | null>;
  submit(): Promise<void>;
}

/** 128 random bits. `crypto.randomUUID` exists on pages with TLS or a local address only. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether the request may have been executed although it has failed. */
export function isOutcomeUnknown(problem: Problem): boolean {
  return problem.status === 0 || problem.status === 408 || problem.status >= 500;
}

const TOO_MANY_REQUESTS = 429;

export function confirmation<T>(send: (key: string) => Promise<T>, makeKey: () => string = newKey): Confirmation<T> {
  const phase = signal<Phase>("asking");
  const problem = signal<Problem | null>(null);
  const outcome = signal<T | null>(null);
  let key = makeKey();

  async function submit(): Promise<void> {
    const before = phase.peek();
    if (before === "sending" || before === "done") return;
    if (before === "refused") key = makeKey();
    phase.value = "sending";
    try {
      outcome.value = await send(key);
      problem.value = null;
      phase.value = "done";
    } catch (error) {
      const found = asProblem(error);
      // A limit says nothing about the request before it.
      const isUnknown = isOutcomeUnknown(found) || (before === "unknown" && found.status === TOO_MANY_REQUESTS);
      problem.value = found;
      phase.value = isUnknown ? "unknown" : "refused";
    }
  }

  return { phase, problem, outcome, submit };
}
