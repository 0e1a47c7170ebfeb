// A list by pages: the first one when its key changes, the next one on request.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { language } from "../language";
import { asProblem, isAbort, type Problem } from "./problem";
import { credential } from "./session";

export interface Page<T> {
  readonly items: readonly T[];
  /** Null: this is the last page. */
  readonly next: string | null;
}

export interface Pages<T> {
  readonly items: readonly T[];
  readonly problem: Problem | null;
  readonly isLoading: boolean;
  /** Nothing has been answered yet. */
  readonly isFirst: boolean;
  readonly hasMore: boolean;
  loadMore(): void;
  /** From the first page again. */
  refresh(): void;
}

interface State<T> {
  readonly items: readonly T[];
  readonly next: string | null;
  readonly problem: Problem | null;
  readonly isLoading: boolean;
  readonly isFirst: boolean;
}

const EMPTY = { items: [], next: null, problem: null, isLoading: true, isFirst: true };

export function usePages<T>(key: string, read: (cursor: string | null, signal: AbortSignal) => Promise<Page<T>>): Pages<T> {
  const [state, setState] = useState<State<T>>(EMPTY);
  const [asked, setAsked] = useState(0);
  const newest = useRef(read);
  newest.current = read;
  const stop = useRef(new AbortController());
  const shownKey = useRef(key);

  const load = useCallback(async (cursor: string | null, before: readonly T[]): Promise<void> => {
    const { signal } = stop.current;
    setState((present) => ({ ...present, isLoading: true }));
    try {
      const found = await newest.current(cursor, signal);
      if (!signal.aborted) setState({ items: [...before, ...found.items], next: found.next, problem: null, isLoading: false, isFirst: false });
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      setState((present) => ({ ...present, problem: asProblem(error), isLoading: false, isFirst: false }));
    }
  }, []);

  useEffect(() => {
    stop.current = new AbortController();
    if (shownKey.current !== key) {
      shownKey.current = key;
      setState(EMPTY);
    }
    void load(null, []);
    return () => stop.current.abort();
    // Another language or credential gets another answer.
  }, [key, asked, language.value, credential.value]);

  return {
    items: state.items,
    problem: state.problem,
    isLoading: state.isLoading,
    isFirst: state.isFirst,
    hasMore: state.next !== null,
    loadMore: () => {
      if (!state.isLoading && state.next !== null) void load(state.next, state.items);
    },
    refresh: () => setAsked((before) => before + 1),
  };
}
