// A list of which only the rows in sight are in the document.

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";

export interface VirtualOptions {
  readonly count: number;
  readonly rowHeight: number;
  readonly overscan?: number;
  /** The identity of a row: rows keep their place in the document when others come before them. */
  readonly keyOf?: (index: number) => string | number;
}

export type ListVirtualizer = Virtualizer<HTMLElement, HTMLElement>;

/** The virtualizer of a scrolling element. Draws again when the rows in sight change. */
export function useVirtualizer(scroller: RefObject<HTMLElement | null>, { count, rowHeight, overscan = 8, keyOf }: VirtualOptions): ListVirtualizer {
  const [, draw] = useReducer((drawn: number) => drawn + 1, 0);
  const options = {
    count,
    overscan,
    estimateSize: () => rowHeight,
    getScrollElement: () => scroller.current,
    ...(keyOf && { getItemKey: keyOf }),
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => draw(undefined),
  };
  const made = useRef<ListVirtualizer | null>(null);
  made.current ??= new Virtualizer<HTMLElement, HTMLElement>(options);
  made.current.setOptions(options);
  const virtualizer = made.current;
  useEffect(() => virtualizer._didMount(), [virtualizer]);
  useLayoutEffect(() => virtualizer._willUpdate());
  return virtualizer;
}

/** Rows of equal height in a scrolling box. `children` draws the row of an index; that of `shown` is scrolled to. */
export function VirtualList({
  count,
  rowHeight,
  overscan,
  keyOf,
  label,
  shown = -1,
  children,
  ...rest
}: VirtualOptions & { label: string; shown?: number; class?: string; children: (index: number) => ComponentChildren }) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtualizer = useVirtualizer(scroller, { count, rowHeight, ...(overscan !== undefined && { overscan }), ...(keyOf && { keyOf }) });
  useEffect(() => {
    if (shown >= 0) virtualizer.scrollToIndex(shown, { align: "auto" });
  }, [shown]);
  return (
    <div ref={scroller} class={`virtual-list ${rest.class ?? ""}`} role="list" aria-label={label} tabIndex={0}>
      <div class="virtual-space" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {virtualizer.getVirtualItems().map((item) => (
          <div
            key={item.key}
            class="virtual-row"
            role="listitem"
            aria-setsize={count}
            aria-posinset={item.index + 1}
            style={{ height: `${item.size}px`, transform: `translateY(${item.start}px)` }}
          >
            {children(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
