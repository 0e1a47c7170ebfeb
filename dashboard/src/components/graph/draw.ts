// Draws the part of a graph that is in sight on a canvas. What is too small to read is left out.

import { cut, visible } from "../name";
import { statusMark, statusName, statusText } from "../status";
import type { GraphEdge, GraphNode } from "./index";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./layout";
import { READABLE, type Size, type Viewport } from "./viewport";

/** Colours of the page as a canvas knows them. */
export interface Palette {
  readonly raised: string;
  readonly text: string;
  readonly muted: string;
  readonly line: string;
  readonly edge: string;
  readonly accent: string;
  readonly focus: string;
  readonly font: string;
  of(state: string): { readonly ink: string; readonly soft: string };
}

export interface Picture {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  readonly layout: Layout;
  /** The index of the selected node; -1: none. */
  readonly selected: number;
  /** Whether a node is among those found; null: nothing is searched for. */
  readonly isFound: ((node: number) => boolean) | null;
}

const ARROWS = 0.3;
const LABELS = 0.6;
const RADIUS = 6;
const TEXT_LEFT = 34;
const TEXT_WIDTH = NODE_WIDTH - TEXT_LEFT - 10;
const DIMMED = 0.25;

const TOKENS: Readonly<Record<string, string>> = {
  RUNNING: "running",
  WAITING: "waiting",
  CANCELLING: "waiting",
  COMPLETED: "completed",
  SUCCEEDED: "completed",
  FAILED: "failed",
  CANCELLED: "cancelled",
};

/** Reads the colours from the styles of an element of the page. */
export function paletteOf(element: HTMLElement): Palette {
  const probe = document.createElement("span");
  element.append(probe);
  const colour = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const states = new Map<string, { ink: string; soft: string }>();
  for (const name of ["pending", "running", "waiting", "completed", "failed", "cancelled"]) {
    states.set(name, { ink: colour(name), soft: colour(`${name}-soft`) });
  }
  const palette = {
    raised: colour("raised"),
    text: colour("text"),
    muted: colour("text-muted"),
    line: colour("line"),
    edge: colour("line-strong"),
    accent: colour("accent"),
    focus: colour("focus"),
    font: getComputedStyle(element).fontFamily,
    of: (state: string) => states.get(TOKENS[statusName(state)] ?? "pending")!,
  };
  probe.remove();
  return palette;
}

export class Painter {
  /** Texts that fit, by font and text: measuring takes longer than drawing. */
  private readonly fitting = new Map<string, string>();

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly palette: Palette,
  ) {}

  draw(picture: Picture, view: Viewport, canvas: Size, pixelRatio: number): void {
    const { context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width * pixelRatio, canvas.height * pixelRatio);
    const scale = view.scale * pixelRatio;
    context.setTransform(scale, 0, 0, scale, view.left * pixelRatio, view.top * pixelRatio);
    const sight = {
      left: -view.left / view.scale,
      top: -view.top / view.scale,
      right: (canvas.width - view.left) / view.scale,
      bottom: (canvas.height - view.top) / view.scale,
    };
    this.edges(picture, view.scale, sight);
    for (let node = 0; node < picture.nodes.length; node++) {
      const [x, y] = [picture.layout.x[node]!, picture.layout.y[node]!];
      if (x > sight.right || x + NODE_WIDTH < sight.left || y > sight.bottom || y + NODE_HEIGHT < sight.top) continue;
      context.globalAlpha = picture.isFound && !picture.isFound(node) ? DIMMED : 1;
      this.node(picture.nodes[node]!, x, y, view.scale, node === picture.selected);
    }
    context.globalAlpha = 1;
  }

  private edges({ edges, layout, selected, nodes, isFound }: Picture, scale: number, sight: Box): void {
    const { context } = this;
    const chosen = nodes[selected]?.id;
    const { points, pointStart } = layout;
    const highlighted: number[] = [];
    context.strokeStyle = context.fillStyle = this.palette.edge;
    context.lineWidth = Math.max(1, 0.6 / scale);
    context.globalAlpha = isFound ? DIMMED : scale < ARROWS ? 0.5 : 1;
    for (let edge = 0; edge < edges.length; edge++) {
      const [first, end] = [pointStart[edge]!, pointStart[edge + 1]!];
      if (first === end || isOutside(points, first, end, sight)) continue;
      if (chosen !== undefined && (edges[edge]!.from === chosen || edges[edge]!.to === chosen)) highlighted.push(edge);
      else this.edge(edges[edge]!, points, first, end, scale);
    }
    context.globalAlpha = 1;
    context.strokeStyle = context.fillStyle = this.palette.accent;
    context.lineWidth = Math.max(2, 1.2 / scale);
    for (const edge of highlighted) this.edge(edges[edge]!, points, pointStart[edge]!, pointStart[edge + 1]!, scale);
  }

  private edge({ label }: GraphEdge, points: Float32Array, first: number, end: number, scale: number): void {
    const { context } = this;
    let [x, y] = [points[2 * first]!, points[2 * first + 1]!];
    context.beginPath();
    context.moveTo(x, y);
    for (let at = first + 1; at < end; at++) {
      const [nextX, nextY] = [points[2 * at]!, points[2 * at + 1]!];
      const middle = (x + nextX) / 2;
      // Between ranks a curve that begins and ends level; through a rank, and back in a cycle, a line.
      if (scale < ARROWS || y === nextY) context.lineTo(nextX, nextY);
      else context.bezierCurveTo(middle, y, middle, nextY, nextX, nextY);
      [x, y] = [nextX, nextY];
    }
    context.stroke();
    if (scale < ARROWS) return;
    const back = points[2 * end - 4]! > x ? 7 : -7;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + back, y - 4);
    context.lineTo(x + back, y + 4);
    context.fill();
    if (label === undefined || scale < LABELS) return;
    const [fromX, fromY] = [points[2 * first]!, points[2 * first + 1]!];
    const [toX, toY] = [points[2 * first + 2]!, points[2 * first + 3]!];
    this.badge(this.fitted(label, 11, 400, 56), (fromX + toX) / 2, (fromY + toY) / 2);
  }

  /** The label of an edge, on the colour of the page so that the line does not strike it through. */
  private badge(text: string, x: number, y: number): void {
    const { context } = this;
    this.setFont(11, 400);
    const width = context.measureText(text).width + 8;
    const colour = context.fillStyle;
    context.fillStyle = this.palette.raised;
    context.fillRect(x - width / 2, y - 8, width, 16);
    context.fillStyle = this.palette.muted;
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.fillText(text, x, y);
    context.fillStyle = colour;
  }

  private node(node: GraphNode, x: number, y: number, scale: number, isSelected: boolean): void {
    const { context, palette } = this;
    const colours = node.state === undefined ? { ink: palette.edge, soft: palette.raised } : palette.of(node.state);
    if (scale < READABLE) {
      // Far away only what has happened stands out.
      const isPlain = node.state === undefined || TOKENS[statusName(node.state)] === undefined;
      context.fillStyle = scale >= ARROWS ? colours.soft : isPlain ? palette.line : colours.ink;
      context.fillRect(x, y, NODE_WIDTH, NODE_HEIGHT);
      context.strokeStyle = isSelected ? palette.focus : isPlain ? palette.edge : colours.ink;
      context.lineWidth = isSelected ? 4 / scale : 0.5 / Math.max(scale, 0.1);
      context.strokeRect(x, y, NODE_WIDTH, NODE_HEIGHT);
      return;
    }
    context.beginPath();
    context.roundRect(x, y, NODE_WIDTH, NODE_HEIGHT, RADIUS);
    context.fillStyle = colours.soft;
    context.fill();
    context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    context.stroke();
    if (isSelected) {
      context.beginPath();
      context.roundRect(x - 3, y - 3, NODE_WIDTH + 6, NODE_HEIGHT + 6, RADIUS + 3);
      context.strokeStyle = palette.focus;
      context.lineWidth = 2.5;
      context.stroke();
    }
    const note = node.note ?? (node.state === undefined ? "" : statusText(node.state));
    context.textBaseline = "middle";
    if (node.state !== undefined) {
      context.textAlign = "center";
      context.fillStyle = colours.ink;
      this.setFont(16, 600);
      context.fillText(statusMark(node.state), x + TEXT_LEFT / 2, y + NODE_HEIGHT / 2 + 0.5);
    }
    const left = node.state === undefined ? 12 : TEXT_LEFT;
    const width = TEXT_WIDTH + TEXT_LEFT - left;
    context.textAlign = "left";
    context.fillStyle = palette.text;
    const label = this.fitted(node.label ?? node.id, 13, 600, width);
    context.fillText(label, x + left, y + (note ? 15 : NODE_HEIGHT / 2));
    if (note) {
      context.fillStyle = palette.muted;
      const below = this.fitted(note, 11, 400, width);
      context.fillText(below, x + left, y + 31);
    }
  }

  private setFont(size: number, weight: number): void {
    this.context.font = `${weight} ${size}px ${this.palette.font}`;
  }

  /** The text in this font, cut to the width. Sets the font. */
  private fitted(text: string, size: number, weight: number, width: number): string {
    this.setFont(size, weight);
    const key = `${size} ${width} ${text}`;
    const known = this.fitting.get(key);
    if (known !== undefined) return known;
    const whole = visible(cut(text, 80));
    let shown = whole;
    if (this.context.measureText(whole).width > width) {
      let [low, high] = [0, whole.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.context.measureText(cut(whole, middle)).width <= width) low = middle;
        else high = middle - 1;
      }
      shown = cut(whole, low);
    }
    this.fitting.set(key, shown);
    return shown;
  }
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Whether no part of an edge can be in sight: it stays within the box of its points. */
function isOutside(points: Float32Array, first: number, end: number, { left, top, right, bottom }: Box): boolean {
  let [minX, minY, maxX, maxY] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = first; at < end; at++) {
    const [x, y] = [points[2 * at]!, points[2 * at + 1]!];
    minX = Math.min(minX, x);
    maxX = Math.max(maxX, x);
    minY = Math.min(minY, y);
    maxY = Math.max(maxY, y);
  }
  return maxX < left || minX > right || maxY < top || minY > bottom;
}
