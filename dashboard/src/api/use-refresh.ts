// Calls a function again and again while the page is visible.

import { useEffect, useRef } from "preact/hooks";

export function useRefresh(refresh: () => void, everyMs: number, isEnabled = true): void {
  const newest = useRef(refresh);
  newest.current = refresh;
  useEffect(() => {
    if (!isEnabled) return undefined;
    let isDue = false;
    const run = (): void => {
      if (document.hidden) isDue = true;
      else newest.current();
    };
    const onVisible = (): void => {
      if (!isDue || document.hidden) return;
      isDue = false;
      newest.current();
    };
    const timer = setInterval(run, everyMs);
    document.addEventListener("visibilitychange", onVisible);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [everyMs, isEnabled]);
}
