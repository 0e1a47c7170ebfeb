// Pages of dead letters as the page needs them.

import type { Page } from "../../api/use-pages";

export const REASONS = ["execution_error", "flow_not_found", "max_deliver", "invalid_job"] as const;
export type KnownReason = (typeof REASONS)[number] | "other";

export function knownReason(reason: string): KnownReason {
  return REASONS.find((each) => each === reason) ?? "other";
}

// One more than is shown, so that the page knows of the rest.
export const ERROR_CHARS = 400;

// A page of the API may be empty and not the last one; each looks at up to 5,000 letters.
const MOST_EMPTY_PAGES = 20;

/** The next page that has letters, or the last one. */
export async function nextFilled<T>(read: (cursor: string | null) => Promise<Page<T>>, cursor: string | null): Promise<Page<T>> {
  let page = await read(cursor);
  for (let empty = 1; page.items.length === 0 && page.next !== null && empty < MOST_EMPTY_PAGES; empty += 1) page = await read(page.next);
  return page;
}
