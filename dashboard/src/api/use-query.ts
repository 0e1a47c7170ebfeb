// Data of a component: read when its key changes, again at an interval while the page is visible.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { language } from "../language";
import { asProblem, isAbort, type Problem } from "./problem";
import { credential } from "./session";

export interface QueryResult<T> {
  /** The newest answer, also while a newer one is awaited or has failed. */
  readonly data: T | undefined;
  readonly problem: Problem | null;
  readonly isLoading: boolean;
  /** When `data` was answered, in milliseconds. */
  readonly readAt: number;
  refresh(): void;
}

interface State<T> {
  data: T | undefined;
  problem: Problem | null;
  isLoading: boolean;
  readAt: number;
}

export function useQuery<T>(
  key: string,
  read: (signal: AbortSignal) => Promise<T>,
  { everyMs = 0, isEnabled = true }: { everyMs?: number; isEnabled?: boolean } = {},
): QueryResult<T> {
  const [state, setState] = useState<State<T>>({ data: undefined, problem: null, isLoading: isEnabled, readAt: 0 });
  const newest = useRef(read);
  newest.current = read;
  const [asked, setAsked] = useState(0);
  const shownKey = useRef(key);

  useEffect(() => {
    if (!isEnabled) return undefined;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (shownKey.current !== key) {
      shownKey.current = key;
      setState({ data: undefined, problem: null, isLoading: true, readAt: 0 });
    }

    const run = async (): Promise<void> => {
      try {
        const data = await newest.current(stop.signal);
        if (!stop.signal.aborted) setState({ data, problem: null, isLoading: false, readAt: Date.now() });
      } catch (error) {
        if (stop.signal.aborted || isAbort(error)) return;
        const problem = asProblem(error);
        setState((before) => ({ ...before, problem, isLoading: false }));
        if (everyMs > 0) schedule(Math.max(everyMs, (problem.retryAfterSec ?? 0) * 1000));
        return;
      }
      if (everyMs > 0 && !stop.signal.aborted) schedule(everyMs);
    };
    const schedule = (ms: number): void => {
      timer = setTimeout(() => {
        if (document.hidden) document.addEventListener("visibilitychange", () => void run(), { once: true, signal: stop.signal });
        else void run();
      }, ms);
    };

    void run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
    // Another language or credential gets another answer.
  }, [key, asked, everyMs, isEnabled, language.value, credential.value]);

  const refresh = useCallback(() => setAsked((before) => before + 1), []);
  return { ...state, refresh };
}
