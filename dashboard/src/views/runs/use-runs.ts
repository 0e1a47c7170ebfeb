// The list of a component: read when the filters change, kept up to date while the page is visible.

import { useEffect, useMemo, useReducer } from "preact/hooks";
import { api, body } from "../../api/client";
import { credential } from "../../api/session";
import { language } from "../../language";
import { apiQuery, type Filters } from "./filters";
import { RunsModel, type Page } from "./runs-model";

const EVERY_MS = 3000;

/** The model, which changes in place, and a number that changes with it: components compare their properties. */
export function useRuns(filters: Filters): { readonly model: RunsModel; readonly revision: number } {
  const [revision, draw] = useReducer((drawn: number) => drawn + 1, 0);
  const key = JSON.stringify(filters);
  const model = useMemo(
    () => new RunsModel(apiQuery(filters, Date.now() / 1000), async (query, signal) => (await body(api.GET("/runs", { params: { query }, signal }))) as Page, () => draw(undefined)),
    // Another language or credential gets other errors or runs.
    [key, language.value, credential.value],
  );
  useEffect(() => {
    const stopped = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const schedule = (): void => {
      timer = setTimeout(() => {
        if (document.hidden) document.addEventListener("visibilitychange", () => void look(), { once: true, signal: stopped.signal });
        else void look();
      }, Math.max(EVERY_MS, (model.problem?.retryAfterSec ?? 0) * 1000));
    };
    const look = async (): Promise<void> => {
      await model.poll();
      if (!stopped.signal.aborted) schedule();
    };
    void model.loadMore().then(() => {
      if (!stopped.signal.aborted) schedule();
    });
    return () => {
      stopped.abort();
      clearTimeout(timer);
      model.stop();
    };
  }, [model]);
  return { model, revision };
}
