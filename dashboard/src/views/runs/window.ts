// Which rows of a scrolling box are in the document: rows have one height, so this does not depend on their number.

export interface RowWindow {
  readonly first: number;
  /** Behind the last row. */
  readonly end: number;
}

export const OVERSCAN = 6;

export function windowOf(scrollTop: number, height: number, rowHeight: number, count: number): RowWindow {
  const first = Math.max(0, Math.min(Math.floor(scrollTop / rowHeight) - OVERSCAN, count));
  const end = Math.max(first, Math.min(Math.ceil((scrollTop + height) / rowHeight) + OVERSCAN, count));
  return { first, end };
}

/** The scroll position that brings a row into sight; the present one if it is. */
export function scrollTo(index: number, scrollTop: number, height: number, rowHeight: number): number {
  const top = index * rowHeight;
  return Math.max(Math.min(scrollTop, top), top + rowHeight - height);
}
