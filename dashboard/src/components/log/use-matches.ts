// The numbers of the lines that a search or a filter takes, found part by part over the whole log.

import { useEffect, useRef, useState } from "preact/hooks";
import { api, body } from "../../api/client";
import { asProblem, isAbort, type Problem } from "../../api/problem";
import { type Found, MatchFinder, NOTHING } from "./finder";

export interface Wanted {
  readonly q: string;
  readonly task: string;
  readonly level: string;
}

export type Level = "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL";

export const LEVELS: readonly Level[] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/** The filter as parameters of the gateway. */
export function filterQuery({ q, task, level }: Wanted): { q?: string; task?: string; level?: Level } {
  const known = LEVELS.find((each) => each === level);
  return { ...(q && { q }), ...(task && { task }), ...(known && { level: known }) };
}

const MOST_NUMBERS = 100_000;

/** `lines`: as many are stored now; more of them are searched from where the search was. */
export function useMatches(runId: string, wanted: Wanted, isWanted: boolean, lines: number | null): Found & { problem: Problem | null } {
  const [found, setFound] = useState<Found>(NOTHING);
  const [problem, setProblem] = useState<Problem | null>(null);
  const finder = useRef<MatchFinder | null>(null);
  const key = JSON.stringify(wanted);

  useEffect(() => {
    setFound(NOTHING);
    setProblem(null);
    if (!isWanted) return undefined;
    const stop = new AbortController();
    const read = async (token: string | undefined) => {
      const query = { ...filterQuery(wanted), limit: MOST_NUMBERS, ...(token !== undefined && { since_token: token }) };
      return await body(api.GET("/runs/{run_id}/logs/matches", { params: { path: { run_id: runId }, query }, signal: stop.signal }));
    };
    finder.current = new MatchFinder(
      read,
      (now) => !stop.signal.aborted && setFound(now),
      (error) => !stop.signal.aborted && !isAbort(error) && setProblem(asProblem(error)),
    );
    return () => {
      stop.abort();
      finder.current = null;
    };
  }, [runId, key, isWanted]);

  useEffect(() => {
    if (lines !== null) void finder.current?.search(lines);
  }, [lines, runId, key, isWanted]);

  return { ...found, problem };
}
