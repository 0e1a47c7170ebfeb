// A directed graph to look at: zoom, pan, find, select. The list beside it is the same for keyboards and screen readers.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { number } from "../../format";
import { language } from "../../language";
import { t } from "../../texts";
import { isDark, theme } from "../../theme";
import { cut, Name, visible } from "../name";
import { Notice } from "../notice";
import { Status, statusText } from "../status";
import { VirtualList } from "../virtual-list";
import { Painter, paletteOf, type Picture } from "./draw";
import { layoutInput, structureOf, useLayout } from "./use-layout";
import { centred, type Direction, first, fitted, isInSight, neighbour, nodeAt, panned, READABLE, type Size, type Viewport, zoomed } from "./viewport";
import "./graph.css";

export interface GraphNode {
  readonly id: string;
  /** The id when absent. */
  readonly label?: string;
  /** A status of a node or a run; absent where there are no states, as in a flow. */
  readonly state?: string;
  /** A second line in place of the state's name. */
  readonly note?: string;
}

export interface GraphEdge {
  readonly from: string;
  readonly to: string;
  readonly label?: string;
}

export interface GraphProps {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  readonly selected?: string | null;
  readonly onSelect?: (id: string | null) => void;
}

const ROW_HEIGHT = 36;
/** Graphs of up to so many nodes get less of the page. */
const SMALL = 12;
const ZOOM_STEP = 1.3;
const ARROW_KEYS: Readonly<Record<string, Direction>> = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

export default function Graph({ nodes, edges, selected = null, onSelect }: GraphProps) {
  const texts = t.value.graph;
  const [sought, setSought] = useState("");
  const key = useMemo(() => structureOf(nodes, edges), [nodes, edges]);
  const laidOut = useLayout(key, () => layoutInput(nodes, edges));
  const found = useMemo(() => matching(nodes, sought), [nodes, sought]);
  const chosen = useMemo(() => nodes.findIndex((node) => node.id === selected), [nodes, selected]);
  const finder = useRef<HTMLInputElement>(null);
  const [shown, setShown] = useState({ node: -1, at: 0 });
  const show = (node: number): void => {
    onSelect?.(nodes[node]!.id);
    setShown({ node, at: shown.at + 1 });
  };
  const next = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || found.length === 0) return;
    const after = found.find((node) => node > chosen);
    show(after ?? found[0]!);
  };

  return (
    <div class={`graph${nodes.length <= SMALL ? " graph-small" : ""}`}>
      <div class="graph-side">
        <input
          ref={finder}
          type="search"
          class="graph-find"
          placeholder={texts.find}
          aria-label={texts.find}
          value={sought}
          onInput={(event) => setSought(event.currentTarget.value)}
          onKeyDown={next}
        />
        <p class="muted small" role="status">
          {sought ? texts.found(number(found.length), number(nodes.length)) : texts.count(number(nodes.length), number(edges.length))}
        </p>
        <VirtualList
          class="graph-list"
          label={texts.nodes}
          count={found.length}
          rowHeight={ROW_HEIGHT}
          keyOf={(row) => nodes[found[row]!]!.id}
          shown={found.indexOf(chosen)}
        >
          {(row) => {
            const node = nodes[found[row]!]!;
            return (
              <button
                type="button"
                class="graph-row"
                aria-pressed={node.id === selected}
                onClick={() => (node.id === selected ? onSelect?.(null) : show(found[row]!))}
              >
                <Name text={node.label ?? node.id} />
                {node.state !== undefined && <Status status={node.state} />}
              </button>
            );
          }}
        </VirtualList>
      </div>
      {laidOut === "failed" ? (
        <Notice kind="warning">{texts.failed}</Notice>
      ) : laidOut?.key === key ? (
        <Canvas
          picture={{ nodes, edges, layout: laidOut.layout, selected: chosen, isFound: sought ? membership(found) : null }}
          structure={key}
          shown={shown}
          onSelect={(node) => onSelect?.(node < 0 ? null : nodes[node]!.id)}
        />
      ) : (
        <div class="graph-box graph-empty" role="status">
          {texts.placing}
        </div>
      )}
    </div>
  );
}

function matching(nodes: readonly GraphNode[], sought: string): number[] {
  const lower = sought.toLowerCase();
  const found: number[] = [];
  nodes.forEach((node, index) => {
    if ((node.label ?? node.id).toLowerCase().includes(lower)) found.push(index);
  });
  return found;
}

function membership(found: readonly number[]): (node: number) => boolean {
  const all = new Set(found);
  return (node) => all.has(node);
}

function Canvas({
  picture,
  structure,
  shown,
  onSelect,
}: {
  picture: Picture;
  structure: string;
  shown: { node: number; at: number };
  onSelect: (node: number) => void;
}) {
  const texts = t.value.graph;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<Viewport | null>(null);
  const size = useRef<Size>({ width: 0, height: 0 });
  const painter = useRef<Painter | null>(null);
  const frame = useRef(0);
  const newest = useRef(picture);
  newest.current = picture;

  const paint = (): void => {
    frame.current = 0;
    if (view.current) painter.current?.draw(newest.current, view.current, size.current, devicePixelRatio);
  };
  const repaint = (): void => {
    frame.current ||= requestAnimationFrame(paint);
  };
  const look = (to: Viewport): void => {
    view.current = to;
    repaint();
  };
  const begin = (): void => {
    const { layout, nodes, selected } = newest.current;
    const whole = first(layout, size.current, nodes.length);
    // A node that the address names is shown where it can be read.
    look(selected >= 0 && whole.scale < READABLE ? centred(whole, layout, selected, size.current) : whole);
  };
  const fit = (): void => look(fitted(newest.current.layout, size.current));
  const zoom = (factor: number): void => {
    if (view.current) look(zoomed(view.current, factor, size.current.width / 2, size.current.height / 2));
  };

  // The colours and the font follow theme and language.
  useEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    painter.current = new Painter(context, paletteOf(box.current!));
    repaint();
  }, [isDark.value, theme.value, language.value]);

  useEffect(() => {
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = box.current!;
      if (width === 0 || height === 0) return;
      const isFirst = size.current.width === 0;
      size.current = { width, height };
      canvas.current!.width = Math.round(width * devicePixelRatio);
      canvas.current!.height = Math.round(height * devicePixelRatio);
      if (isFirst) begin();
      // At once: the canvas is empty after its size has changed.
      paint();
    });
    observer.observe(box.current!);
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, []);

  // A graph that grows while its run goes on is fitted again.
  useLayoutEffect(() => {
    if (size.current.width > 0) begin();
  }, [structure]);
  useEffect(repaint);
  useEffect(() => {
    if (shown.node >= 0 && view.current) look(centred(view.current, newest.current.layout, shown.node, size.current));
  }, [shown.at]);

  usePointer(canvas, view, newest, look, onSelect);

  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { layout, selected } = newest.current;
    const direction = ARROW_KEYS[event.key];
    if (direction) {
      const node = selected < 0 ? 0 : neighbour(layout, selected, direction);
      if (node >= 0 && node < newest.current.nodes.length) {
        onSelect(node);
        if (view.current && !isInSight(view.current, layout, node, size.current)) {
          look(centred(view.current, layout, node, size.current));
        }
      }
    } else if (event.key === "+" || event.key === "=") zoom(ZOOM_STEP);
    else if (event.key === "-") zoom(1 / ZOOM_STEP);
    else if (event.key === "0") fit();
    else if (event.key === "Escape" && selected >= 0) onSelect(-1);
    else return;
    event.preventDefault();
  };

  const chosen = picture.nodes[picture.selected];
  return (
    <div class="graph-box" ref={box}>
      <canvas
        ref={canvas}
        class="graph-canvas"
        tabIndex={0}
        role="application"
        aria-label={texts.canvas(number(picture.nodes.length))}
        onKeyDown={onKey}
      />
      <span class="visually-hidden" aria-live="polite">
        {chosen && texts.selected(visible(cut(chosen.label ?? chosen.id, 120)), chosen.state === undefined ? "" : statusText(chosen.state))}
      </span>
      <div class="graph-tools" role="group" aria-label={texts.tools}>
        <button type="button" aria-label={texts.zoomIn} title={`${texts.zoomIn} (+)`} onClick={() => zoom(ZOOM_STEP)}>
          +
        </button>
        <button type="button" aria-label={texts.zoomOut} title={`${texts.zoomOut} (−)`} onClick={() => zoom(1 / ZOOM_STEP)}>
          −
        </button>
        <button type="button" title={`${texts.fit} (0)`} onClick={fit}>
          {texts.fit}
        </button>
      </div>
    </div>
  );
}

const CLICK_PX = 4;
const TITLE_CHARS = 200;

interface Held {
  x: number;
  y: number;
}

/** Drag to pan, wheel or two fingers to zoom, click to select. */
function usePointer(
  element: { current: HTMLCanvasElement | null },
  view: { current: Viewport | null },
  newest: { current: Picture },
  look: (to: Viewport) => void,
  onSelect: (node: number) => void,
): void {
  const select = useRef(onSelect);
  select.current = onSelect;
  useEffect(() => {
    const canvas = element.current!;
    const held = new Map<number, Held>();
    let moved = 0;
    const at = (event: MouseEvent): Held => {
      const bounds = canvas.getBoundingClientRect();
      return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
    };
    const nodeBelow = ({ x, y }: Held): number => (view.current ? nodeAt(view.current, newest.current.layout, x, y) : -1);
    const onDown = (event: PointerEvent): void => {
      canvas.setPointerCapture(event.pointerId);
      if (held.size === 0) moved = 0;
      held.set(event.pointerId, at(event));
    };
    const onMove = (event: PointerEvent): void => {
      const to = at(event);
      const from = held.get(event.pointerId);
      if (!from || !view.current) {
        hover(canvas, newest.current, nodeBelow(to));
        return;
      }
      const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
      moved += Math.hypot(to.x - from.x, to.y - from.y);
      if (other) {
        const spread = Math.hypot(to.x - other.x, to.y - other.y) / Math.max(1, Math.hypot(from.x - other.x, from.y - other.y));
        const middle = { x: (to.x + other.x) / 2, y: (to.y + other.y) / 2 };
        look(panned(zoomed(view.current, spread, middle.x, middle.y), (to.x - from.x) / 2, (to.y - from.y) / 2));
      } else if (moved > CLICK_PX) {
        look(panned(view.current, to.x - from.x, to.y - from.y));
      }
      held.set(event.pointerId, to);
    };
    const onUp = (event: PointerEvent): void => {
      if (held.delete(event.pointerId) && held.size === 0 && moved <= CLICK_PX && event.type === "pointerup") {
        select.current(nodeBelow(at(event)));
      }
    };
    const onWheel = (event: WheelEvent): void => {
      event.preventDefault();
      const { x, y } = at(event);
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      if (view.current) look(zoomed(view.current, Math.exp((-event.deltaY * lines) / 400), x, y));
    };
    canvas.addEventListener("pointerdown", onDown);
    canvas.addEventListener("pointermove", onMove);
    canvas.addEventListener("pointerup", onUp);
    canvas.addEventListener("pointercancel", onUp);
    canvas.addEventListener("wheel", onWheel, { passive: false });
    return () => {
      canvas.removeEventListener("pointerdown", onDown);
      canvas.removeEventListener("pointermove", onMove);
      canvas.removeEventListener("pointerup", onUp);
      canvas.removeEventListener("pointercancel", onUp);
      canvas.removeEventListener("wheel", onWheel);
    };
  }, []);
}

/** The whole name of the node below the pointer. */
function hover(canvas: HTMLCanvasElement, { nodes }: Picture, index: number): void {
  const node = nodes[index];
  const title = node ? visible(cut(node.label ?? node.id, TITLE_CHARS)) : "";
  if (canvas.title !== title) canvas.title = title;
  canvas.style.cursor = node ? "pointer" : "";
}

