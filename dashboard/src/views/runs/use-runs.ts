// The list of a component: read when the filters change, kept up to date while the page is visible.

import { useEffect, useMemo, useReducer } from "preact/hooks";
import { api, body } from "../../api/client";
import { credential } from "../../api/session";
import { language } from "../../language";
import { apiQuery, type Filters } from "./filters";
import { RunsModel, type Page, type PageQuery } from "./runs-model";

const EVERY_MS = 3000;
// A list that was left for longer is read again.
const KEPT_MS = 600_000;

// The list that was left last: back from a run it is where it was.
let kept: { readonly key: string; readonly model: RunsModel; readonly leftAt: number } | null = null;

async function read(query: PageQuery, signal: AbortSignal): Promise<Page> {
  return (await body(api.GET("/runs", { params: { query }, signal }))) as Page;
}

function modelOf(key: string, filters: Filters): RunsModel {
  const found = kept?.key === key && Date.now() - kept.leftAt < KEPT_MS ? kept.model : null;
  if (found === null) kept?.model.stop();
  kept = null;
  return found ?? new RunsModel(apiQuery(filters, Date.now() / 1000), read);
}

/** The model, which changes in place, and a number that changes with it: components compare their properties. */
export function useRuns(filters: Filters): { readonly model: RunsModel; readonly revision: number } {
  const [revision, draw] = useReducer((drawn: number) => drawn + 1, 0);
  // Another language or credential gets other errors or runs.
  const key = JSON.stringify([filters, language.value, credential.value]);
  const model = useMemo(() => modelOf(key, filters), [key]);
  useEffect(() => {
    const stopped = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    model.changed = () => draw(undefined);
    const look = async (): Promise<void> => {
      await model.poll();
      if (stopped.signal.aborted) return;
      timer = setTimeout(() => {
        if (document.hidden) document.addEventListener("visibilitychange", () => void look(), { once: true, signal: stopped.signal });
        else void look();
      }, Math.max(EVERY_MS, (model.problem?.retryAfterSec ?? 0) * 1000));
    };
    void look();
    return () => {
      stopped.abort();
      clearTimeout(timer);
      model.changed = () => undefined;
      kept?.model.stop();
      kept = { key, model, leftAt: Date.now() };
    };
  }, [model]);
  return { model, revision };
}
