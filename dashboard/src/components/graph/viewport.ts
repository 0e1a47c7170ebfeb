// The part of a graph that is in sight: scale and offset, and the nodes at or near a place. Pure.

import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./layout";

/** A point of the graph at `x * scale + left`, `y * scale + top` of the canvas. */
export interface Viewport {
  readonly scale: number;
  readonly left: number;
  readonly top: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export type Direction = "left" | "right" | "up" | "down";

const MARGIN = 24;
const LARGEST_SCALE = 2;
const SMALLEST_SCALE = 0.01;
/** Names are drawn from this scale on. */
export const READABLE = 0.45;
const READABLE_AT_FIRST = 0.7;
const FEW_NODES = 60;
/** A small graph is not shown larger than this when it is fitted. */
const LARGEST_FIT = 1;

/** All of the graph, in the middle. */
export function fitted(graph: Size, canvas: Size): Viewport {
  const scale = Math.max(
    SMALLEST_SCALE,
    Math.min(
      LARGEST_FIT,
      (canvas.width - 2 * MARGIN) / Math.max(1, graph.width),
      (canvas.height - 2 * MARGIN) / Math.max(1, graph.height),
    ),
  );
  return {
    scale,
    left: (canvas.width - graph.width * scale) / 2,
    top: (canvas.height - graph.height * scale) / 2,
  };
}

/** What is seen first: all of it, or where that would be too small to read and there are few nodes, its beginning. */
export function first(graph: Size, canvas: Size, nodes: number): Viewport {
  const all = fitted(graph, canvas);
  if (all.scale >= READABLE || nodes > FEW_NODES) return all;
  const scale = READABLE_AT_FIRST;
  return { scale, left: MARGIN, top: Math.max(MARGIN, (canvas.height - graph.height * scale) / 2) };
}

/** Larger or smaller by the factor; the point of the canvas stays where it is. */
export function zoomed(view: Viewport, factor: number, x: number, y: number): Viewport {
  const scale = Math.min(LARGEST_SCALE, Math.max(SMALLEST_SCALE, view.scale * factor));
  const by = scale / view.scale;
  return { scale, left: x - (x - view.left) * by, top: y - (y - view.top) * by };
}

export function panned(view: Viewport, dx: number, dy: number): Viewport {
  return { ...view, left: view.left + dx, top: view.top + dy };
}

/** A node in the middle, large enough to read. */
export function centred(view: Viewport, { x, y }: Layout, node: number, canvas: Size): Viewport {
  const scale = Math.max(view.scale, 0.8);
  return {
    scale,
    left: canvas.width / 2 - (x[node]! + NODE_WIDTH / 2) * scale,
    top: canvas.height / 2 - (y[node]! + NODE_HEIGHT / 2) * scale,
  };
}

export function isInSight(view: Viewport, { x, y }: Layout, node: number, canvas: Size): boolean {
  const left = x[node]! * view.scale + view.left;
  const top = y[node]! * view.scale + view.top;
  return left >= 0 && top >= 0 && left + NODE_WIDTH * view.scale <= canvas.width && top + NODE_HEIGHT * view.scale <= canvas.height;
}

/** The node at a point of the canvas; -1 for none. */
export function nodeAt(view: Viewport, { x, y }: Layout, px: number, py: number): number {
  const gx = (px - view.left) / view.scale;
  const gy = (py - view.top) / view.scale;
  for (let node = 0; node < x.length; node++) {
    if (gx >= x[node]! && gx <= x[node]! + NODE_WIDTH && gy >= y[node]! && gy <= y[node]! + NODE_HEIGHT) return node;
  }
  return -1;
}

/** The nearest node in a direction, rather straight ahead than near; -1 for none. */
export function neighbour({ x, y }: Layout, from: number, direction: Direction): number {
  const isHorizontal = direction === "left" || direction === "right";
  const sign = direction === "right" || direction === "down" ? 1 : -1;
  let nearest = -1;
  let least = Infinity;
  for (let node = 0; node < x.length; node++) {
    const dx = x[node]! - x[from]!;
    const dy = y[node]! - y[from]!;
    const ahead = sign * (isHorizontal ? dx : dy);
    const aside = Math.abs(isHorizontal ? dy : dx);
    const distance = ahead + 2 * aside;
    if (ahead > 0 && distance < least) [nearest, least] = [node, distance];
  }
  return nearest;
}
