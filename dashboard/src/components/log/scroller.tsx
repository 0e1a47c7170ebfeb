// The lines in sight of a log of any length. Wheel and keys move it by pixels, the scroll bar by its share of the lines.

import type { ComponentChildren, RefObject } from "preact";
import { useCallback, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from "preact/hooks";
import { centred, heightOf, kept, type Measured, moved, offsetAt, placeAt, placeOf, rowsAround, scrollTopOf, type Box } from "./geometry";

export const ROW_HEIGHT = 20;

export interface ScrollerHandle {
  /** Brings a row into the middle of the window. */
  show(row: number): void;
  moveBy(pixels: number): void;
  toStart(): void;
  toEnd(): void;
  focus(): void;
}

interface Props {
  readonly rows: number;
  readonly isWrapping: boolean;
  /** Stay at the end when rows are added. */
  readonly isFollowing: boolean;
  readonly label: string;
  readonly handle: RefObject<ScrollerHandle | null>;
  /** Rows from `first` up to `last` are in the document. */
  onRows(first: number, last: number): void;
  /** The visitor moved; `isAtEnd`: to the end. */
  onMoved(isAtEnd: boolean): void;
  children(row: number): ComponentChildren;
}

export function Scroller({ rows, isWrapping, isFollowing, label, handle, onRows, onMoved, children }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const space = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(400);
  const [, draw] = useState({});
  const place = useRef(0);
  const measured = useRef<Measured | null>(null);
  const shownBox = useRef<Box | null>(null);
  const total = useRef(0);
  const frame = useRef(0);
  // The row that was asked for stays in the middle, also when lines around it are loaded, until the visitor moves.
  const pinned = useRef<number | null>(null);

  const box: Box = { rows, rowHeight: ROW_HEIGHT, height };
  const before = shownBox.current;
  const isChanged = before !== null && (before.rows !== rows || before.height !== height);
  if (isFollowing) place.current = rows;
  else if (isChanged && measured.current) place.current = kept(measured.current, place.current, before, box);
  place.current = Math.min(place.current, rows);
  shownBox.current = box;
  const { first, last } = rowsAround(place.current, box);
  const newest = useRef({ box, onMoved });
  newest.current = { box, onMoved };

  const redraw = useCallback(() => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      draw({});
    });
  }, []);

  const moveTo = useCallback((wanted: number) => {
    const { box: now, onMoved: tell } = newest.current;
    pinned.current = null;
    place.current = Math.min(Math.max(wanted, 0), now.rows);
    // A pixel from the end is the end.
    const step = measured.current ? moved(measured.current, place.current, 1, now) : place.current;
    tell(step >= now.rows - 1e-6);
    redraw();
  }, []);

  const moveBy = useCallback((pixels: number) => {
    const now = newest.current.box;
    if (measured.current) moveTo(moved(measured.current, place.current, pixels, now));
  }, []);

  useImperativeHandle(handle, () => ({
    show: (row) => {
      moveTo(placeOf(row, newest.current.box));
      pinned.current = row;
    },
    moveBy,
    toStart: () => moveTo(0),
    toEnd: () => moveTo(newest.current.box.rows),
    focus: () => scroller.current?.focus({ preventScroll: true }),
  }));

  useLayoutEffect(() => setHeight(scroller.current?.clientHeight ?? 0), []);
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => {
      setHeight(element.clientHeight);
      redraw();
    });
    observer.observe(element);
    const onWheel = (event: WheelEvent): void => {
      if (event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.deltaY === 0) return;
      const isPage = event.deltaMode === WheelEvent.DOM_DELTA_PAGE;
      const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : isPage ? element.clientHeight : ROW_HEIGHT;
      const before = place.current;
      moveBy(event.deltaY * unit);
      // At an end the page scrolls on.
      if (place.current !== before) event.preventDefault();
    };
    const onScroll = (): void => {
      const now = newest.current.box;
      // The window may have another height by now.
      const expected = Math.min(scrollTopOf(place.current, total.current, now), element.scrollHeight - element.clientHeight);
      // What this component sets comes back rounded; anything else is the visitor's.
      if (Math.abs(element.scrollTop - expected) < 1.5) return;
      moveTo(placeAt(element.scrollTop, total.current, now));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    element.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("wheel", onWheel);
      element.removeEventListener("scroll", onScroll);
      cancelAnimationFrame(frame.current);
    };
  }, []);

  useLayoutEffect(() => {
    const element = scroller.current;
    const inside = content.current;
    if (element === null || inside === null) return;
    const children = inside.children;
    const edges: number[] = [];
    for (const child of children) edges.push((child as HTMLElement).offsetTop);
    edges.push(inside.offsetHeight);
    measured.current = { first, edges };
    if (pinned.current !== null && pinned.current >= first && pinned.current < last) {
      const wanted = centred(measured.current, pinned.current, box);
      // Other rows are around another place.
      if (Math.abs(wanted - place.current) > 1e-3) redraw();
      place.current = wanted;
    }
    total.current = heightOf(box, measured.current);
    if (space.current) space.current.style.height = `${total.current}px`;
    inside.style.transform = `translateY(${-offsetAt(measured.current, place.current, box)}px)`;
    const wanted = scrollTopOf(place.current, total.current, box);
    if (Math.abs(element.scrollTop - wanted) >= 1) element.scrollTop = wanted;
    onRows(first, last);
  });

  const shown: ComponentChildren[] = [];
  for (let row = first; row < last; row++) shown.push(children(row));
  return (
    <div
      ref={scroller}
      class={`log-scroller${isWrapping ? " log-wrapping" : ""}`}
      tabIndex={0}
      role="region"
      aria-label={label}
      onKeyDown={(event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const page = height - 2 * ROW_HEIGHT;
        const moves: Record<string, () => void> = {
          ArrowDown: () => moveBy(2 * ROW_HEIGHT),
          ArrowUp: () => moveBy(-2 * ROW_HEIGHT),
          PageDown: () => moveBy(page),
          PageUp: () => moveBy(-page),
          Home: () => moveTo(0),
          End: () => moveTo(newest.current.box.rows),
        };
        if (event.key === " " && event.target === scroller.current) moves[" "] = () => moveBy(event.shiftKey ? -page : page);
        const move = moves[event.key];
        if (move === undefined) return;
        event.preventDefault();
        move();
      }}
    >
      <div ref={space} class="log-space">
        <div class="log-window">
          <div ref={content} class="log-rows" role="list">
            {shown}
          </div>
        </div>
      </div>
    </div>
  );
}
