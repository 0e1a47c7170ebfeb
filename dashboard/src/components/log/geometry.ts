// Which line of a long log is where in the window: pure.
//
// A browser limits the height of an element, and lines that wrap differ in height, so the scroll bar is a share of the
// lines and not a number of pixels: at the share p of the log, the place p of the log is at the share p of the window.
// Both ends of the log then meet the ends of the window, whatever the heights are.

/** Tops of the rows in the document, and the bottom of the last one, in pixels from the first. */
export interface Measured {
  readonly first: number;
  readonly edges: readonly number[];
}

export interface Box {
  readonly rows: number;
  readonly rowHeight: number;
  readonly height: number;
}

// Firefox ends at 17.8 million pixels, Chromium at 33.5 million.
export const MAX_HEIGHT = 10_000_000;

/** The pixels of a fractional row, from the first measured one; behind the measured ones rows have the usual height. */
export function pixelOf(measured: Measured, place: number, rowHeight: number): number {
  const { first, edges } = measured;
  const last = first + edges.length - 1;
  if (place <= first) return (place - first) * rowHeight;
  if (place >= last) return (edges.at(-1) ?? 0) + (place - last) * rowHeight;
  const index = Math.floor(place - first);
  const top = edges[index] ?? 0;
  return top + (place - first - index) * ((edges[index + 1] ?? top) - top);
}

/** The pixels from the first measured row to the top of the window, when the log is at this place. */
export function offsetAt(measured: Measured, place: number, box: Box): number {
  const content = measured.edges.at(-1) ?? 0;
  // What fits is not moved.
  if (measured.edges.length > box.rows && content <= box.height) return 0;
  return pixelOf(measured, place, box.rowHeight) - share(place, box) * box.height;
}

function share(place: number, { rows }: Box): number {
  return rows > 0 ? place / rows : 0;
}

/** The place after moving by some pixels, exactly: rows that wrap are as slow as others. */
export function moved(measured: Measured, place: number, pixels: number, box: Box): number {
  return placeWith(measured, offsetAt(measured, place, box) + pixels, box);
}

/** The place at which nothing in the window moves, when rows were added or the window has another height. */
export function kept(measured: Measured, place: number, before: Box, box: Box): number {
  return placeWith(measured, offsetAt(measured, place, before), box);
}

/** The place at which a measured row is in the middle of the window, whatever the heights of the rows around it. */
export function centred(measured: Measured, row: number, box: Box): number {
  const top = pixelOf(measured, row, box.rowHeight);
  const bottom = pixelOf(measured, row + 1, box.rowHeight);
  // A row that is higher than the window begins at its top.
  return placeWith(measured, Math.min(top, (top + bottom - box.height) / 2), box);
}

function placeWith(measured: Measured, wanted: number, box: Box): number {
  let low = 0;
  let high = box.rows;
  // The offset grows with the place, because no row is lower than its share of the window.
  for (let step = 0; step < 60 && high - low > 1e-6; step++) {
    const middle = (low + high) / 2;
    if (offsetAt(measured, middle, box) < wanted) low = middle;
    else high = middle;
  }
  return Math.min(Math.max(high, 0), box.rows);
}

/** The rows that have to be in the document at this place: what is in the window, and some around it. */
export function rowsAround(place: number, box: Box, around = 12): { first: number; last: number } {
  const above = Math.ceil((share(place, box) * box.height) / box.rowHeight);
  const below = Math.ceil(((1 - share(place, box)) * box.height) / box.rowHeight);
  const first = Math.max(0, Math.floor(place) - above - around);
  return { first, last: Math.min(box.rows, Math.ceil(place) + below + around) };
}

/** The place at which a row is in the middle of the window, if rows have the usual height. */
export function placeOf(row: number, box: Box): number {
  const inWindow = box.height / box.rowHeight;
  if (box.rows <= inWindow) return 0;
  const top = Math.min(Math.max(row + 0.5 - inWindow / 2, 0), box.rows - inWindow);
  return (top / (box.rows - inWindow)) * box.rows;
}

/** The height of the scrolled element. When all rows are in the document, it is theirs. */
export function heightOf(box: Box, measured: Measured | null): number {
  const isWhole = measured !== null && measured.first === 0 && measured.edges.length === box.rows + 1;
  const content = isWhole ? (measured.edges.at(-1) ?? 0) : box.rows * box.rowHeight;
  return Math.min(content, MAX_HEIGHT);
}

/** The place of the log at a position of the scroll bar, and the other way round. */
export function placeAt(scrollTop: number, height: number, box: Box): number {
  const range = height - box.height;
  return range > 0 ? Math.min(Math.max(scrollTop / range, 0), 1) * box.rows : 0;
}

export function scrollTopOf(place: number, height: number, box: Box): number {
  return Math.max(0, height - box.height) * share(place, box);
}
