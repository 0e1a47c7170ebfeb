// One clock for all relative times of the page: ticks once a second, and not while the page is hidden.

import { signal } from "@preact/signals";

/** Unix seconds, a second exact. Only components that read it are drawn again. */
export const now = signal(Date.now() / 1000);

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now() / 1000;
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) now.value = Date.now() / 1000;
  });
}
