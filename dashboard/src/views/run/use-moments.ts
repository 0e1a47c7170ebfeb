// The times in the events of a run, for a timeline; read in pages, and further while the run goes on.

import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort } from "../../api/problem";
import { eventsPage, placeOf } from "./events";
import type { RunSnapshot } from "./model";
import { momentOf, type NodeMoment } from "./timeline";

export const MAX_EVENTS = 20_000;
const PAGE = 1000;
const PAUSE_MS = 2000;

interface Read {
  moments: NodeMoment[];
  events: number;
  /** The place of the last event, to read on behind it. */
  cursor: string;
  version: number;
}

/** `isCut`: the run has more events than are read. */
export function useMoments(run: RunSnapshot, isEnabled: boolean): { moments: readonly NodeMoment[]; isCut: boolean } {
  const [read, setRead] = useState<Read>({ moments: [], events: 0, cursor: "", version: 0 });
  const newest = useRef(read);
  newest.current = read;
  const isBehind = isEnabled && read.version < run.version && read.events < MAX_EVENTS;
  useEffect(() => {
    if (!isBehind) return undefined;
    const stop = new AbortController();
    const readOn = async (): Promise<void> => {
      const wanted = run.version;
      let { moments, events, cursor } = newest.current;
      for (let isMore = true; isMore && events < MAX_EVENTS; ) {
        const page = await eventsPage(run.run_id, { limit: PAGE, ...(cursor && { cursor }) }, stop.signal);
        moments = moments.concat(page.items.map(momentOf).filter((moment) => moment !== null));
        events += page.items.length;
        const last = page.items.at(-1);
        if (last) cursor = placeOf(last);
        isMore = page.nextCursor !== null;
        setRead({ moments, events, cursor, version: isMore ? 0 : Math.max(wanted, last?.version ?? 0) });
      }
    };
    const timer = setTimeout(
      () =>
        readOn().catch((error: unknown) => {
          // What the records say is still shown.
          if (!isAbort(error)) setRead((before) => ({ ...before, version: run.version }));
        }),
      newest.current.events === 0 ? 0 : PAUSE_MS,
    );
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
    // Not of the version: a run that changes all the time would never be read.
  }, [run.run_id, isBehind]);
  return { moments: read.moments, isCut: read.events >= MAX_EVENTS };
}
