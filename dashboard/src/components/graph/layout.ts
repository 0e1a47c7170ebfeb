// Places the nodes of a directed graph in layers from left to right. Pure and deterministic.
//
//   components → cycles broken → ranks by longest path → order within ranks by barycentres → coordinates → shelves
//
// No step is recursive, so a chain of thousands of nodes is fine. Edges that span several ranks go through dummy nodes,
// which keeps them clear of other nodes; when a graph would need more than MAX_DUMMIES, its longest edges are direct.

export interface LayoutInput {
  /** How many nodes there are; edges name them by index. */
  nodeCount: number;
  /** Pairs of indexes: source, target, source, target, … Those with an unknown end are ignored. */
  edges: ArrayLike<number>;
}

export interface Layout {
  /** The top left corner of each node. */
  x: Float32Array;
  y: Float32Array;
  width: number;
  height: number;
  /** The points of all edges as x, y pairs, from the source's to the target's side. */
  points: Float32Array;
  /** Edge `i` has the points `pointStart[i]` to `pointStart[i + 1]`, counted in pairs. It has none if it is not drawn. */
  pointStart: Uint32Array;
}

export const NODE_WIDTH = 190;
export const NODE_HEIGHT = 44;
export const RANK_GAP = 64;
export const NODE_GAP = 16;
const EDGE_GAP = 10;
const COMPONENT_GAP = 40;
const ASPECT_RATIO = 1.6;
const MAX_DUMMIES = 20_000;
const ORDER_SWEEPS = 8;
const ALIGN_SWEEPS = 8;
/** Keeps long edges straight: the pull between two dummy nodes relative to that between nodes. */
const DUMMY_PULL = 8;

interface Edge {
  index: number;
  from: number;
  to: number;
}

/** A node or dummy of one component. Neighbours are those in the rank before and after. */
interface Vertex {
  /** The node's index; -1 for a dummy. */
  node: number;
  rank: number;
  before: Vertex[];
  after: Vertex[];
  place: number;
  /** By what its layer is sorted in a sweep. */
  key: number;
  y: number;
}

interface Box {
  width: number;
  height: number;
}

export function layoutGraph({ nodeCount, edges }: LayoutInput): Layout {
  const x = new Float32Array(nodeCount);
  const y = new Float32Array(nodeCount);
  const paths: number[][] = new Array<number[]>(Math.floor(edges.length / 2));
  const valid = validEdges(nodeCount, edges);
  const boxes: Box[] = [];
  const components = connectedComponents(nodeCount, valid);
  for (const component of components) boxes.push(placeComponent(component, x, y, paths));
  const { offsets, width, height } = packed(boxes);
  components.forEach((component, number) => {
    const offset = offsets[number]!;
    for (const node of component.nodes) {
      x[node]! += offset.x;
      y[node]! += offset.y;
    }
    for (const { index } of component.edges) {
      const path = paths[index]!;
      for (let at = 0; at < path.length; at += 2) {
        path[at]! += offset.x;
        path[at + 1]! += offset.y;
      }
    }
  });
  return { x, y, width, height, ...flattened(paths) };
}

/** The edges between two different known nodes. */
function validEdges(nodeCount: number, flat: ArrayLike<number>): Edge[] {
  const edges: Edge[] = [];
  const isKnown = (node: number) => Number.isInteger(node) && node >= 0 && node < nodeCount;
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const [from, to] = [flat[at]!, flat[at + 1]!];
    if (isKnown(from) && isKnown(to) && from !== to) edges.push({ index: at / 2, from, to });
  }
  return edges;
}

interface Component {
  nodes: number[];
  edges: Edge[];
}

/** The parts of the graph that no edge connects, in the order of their first nodes. */
function connectedComponents(nodeCount: number, edges: Edge[]): Component[] {
  const parent = Uint32Array.from({ length: nodeCount }, (_, node) => node);
  const root = (node: number): number => {
    while (parent[node] !== node) {
      parent[node] = parent[parent[node]!]!;
      node = parent[node]!;
    }
    return node;
  };
  for (const { from, to } of edges) {
    const [one, other] = [root(from), root(to)];
    // The lower index is the root, so that the order of components is that of the nodes.
    if (one < other) parent[other] = one;
    else parent[one] = other;
  }
  const byRoot = new Map<number, Component>();
  for (let node = 0; node < nodeCount; node++) {
    const top = root(node);
    let component = byRoot.get(top);
    if (!component) byRoot.set(top, (component = { nodes: [], edges: [] }));
    component.nodes.push(node);
  }
  for (const edge of edges) byRoot.get(root(edge.from))!.edges.push(edge);
  return [...byRoot.values()];
}

/** Places one component with its corner at 0, 0 and draws its edges. */
function placeComponent(component: Component, x: Float32Array, y: Float32Array, paths: number[][]): Box {
  if (component.edges.length === 0) return { width: NODE_WIDTH, height: NODE_HEIGHT };
  const forward = withoutCycles(component);
  const rankOf = ranks(component.nodes, forward);
  const { layers, chains } = layered(component.nodes, forward, rankOf);
  orderLayers(layers);
  const height = alignLayers(layers);
  for (const layer of layers) {
    for (const vertex of layer) {
      if (vertex.node < 0) continue;
      x[vertex.node] = columnX(vertex.rank);
      y[vertex.node] = vertex.y - NODE_HEIGHT / 2;
    }
  }
  for (const { edge, isReversed, chain } of chains) {
    const path = chain.flatMap((vertex, at) => {
      const left = columnX(vertex.rank);
      if (at === 0) return [left + NODE_WIDTH, vertex.y];
      if (at === chain.length - 1) return [left, vertex.y];
      return [left, vertex.y, left + NODE_WIDTH, vertex.y];
    });
    paths[edge.index] = isReversed ? reversedPath(path) : path;
  }
  return { width: columnX(layers.length - 1) + NODE_WIDTH, height };
}

function columnX(rank: number): number {
  return rank * (NODE_WIDTH + RANK_GAP);
}

interface ForwardEdge {
  edge: Edge;
  from: number;
  to: number;
  isReversed: boolean;
}

/** The edges with those turned round that would close a cycle, found by a depth-first search. */
function withoutCycles({ nodes, edges }: Component): ForwardEdge[] {
  const after = new Map<number, Edge[]>(nodes.map((node) => [node, []]));
  const entered = new Map<number, number>(nodes.map((node) => [node, 0]));
  for (const edge of edges) {
    after.get(edge.from)!.push(edge);
    entered.set(edge.to, entered.get(edge.to)! + 1);
  }
  const back = new Set<Edge>();
  const OPEN = 1;
  const CLOSED = 2;
  const state = new Map<number, number>();
  const starts = [...nodes.filter((node) => entered.get(node) === 0), ...nodes];
  for (const start of starts) {
    if (state.has(start)) continue;
    state.set(start, OPEN);
    const stack = [{ node: start, next: 0 }];
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!;
      const edge = after.get(top.node)![top.next++];
      if (!edge) {
        state.set(top.node, CLOSED);
        stack.pop();
      } else if (state.get(edge.to) === OPEN) {
        back.add(edge);
      } else if (!state.has(edge.to)) {
        state.set(edge.to, OPEN);
        stack.push({ node: edge.to, next: 0 });
      }
    }
  }
  return edges.map((edge) =>
    back.has(edge)
      ? { edge, from: edge.to, to: edge.from, isReversed: true }
      : { edge, from: edge.from, to: edge.to, isReversed: false },
  );
}

/** The longest path to each node; nodes without predecessors move next to their nearest successor. */
function ranks(nodes: number[], edges: ForwardEdge[]): Map<number, number> {
  const after = new Map<number, number[]>(nodes.map((node) => [node, []]));
  const open = new Map<number, number>(nodes.map((node) => [node, 0]));
  for (const { from, to } of edges) {
    after.get(from)!.push(to);
    open.set(to, open.get(to)! + 1);
  }
  const roots = nodes.filter((node) => open.get(node) === 0);
  const rankOf = new Map<number, number>(nodes.map((node) => [node, 0]));
  const queue = [...roots];
  for (const node of queue) {
    for (const next of after.get(node)!) {
      rankOf.set(next, Math.max(rankOf.get(next)!, rankOf.get(node)! + 1));
      open.set(next, open.get(next)! - 1);
      if (open.get(next) === 0) queue.push(next);
    }
  }
  for (const node of roots) {
    let nearest = Infinity;
    for (const next of after.get(node)!) nearest = Math.min(nearest, rankOf.get(next)!);
    rankOf.set(node, nearest - 1);
  }
  return rankOf;
}

interface Chain {
  edge: Edge;
  isReversed: boolean;
  chain: Vertex[];
}

/** The vertices of each rank, with dummies where edges pass, and the vertices that each edge goes through. */
function layered(
  nodes: number[],
  edges: ForwardEdge[],
  rankOf: ReadonlyMap<number, number>,
): { layers: Vertex[][]; chains: Chain[] } {
  const layers: Vertex[][] = [];
  const add = (node: number, rank: number): Vertex => {
    const vertex = { node, rank, before: [], after: [], place: 0, key: 0, y: 0 };
    while (layers.length <= rank) layers.push([]);
    layers[rank]!.push(vertex);
    return vertex;
  };
  const vertexOf = new Map(nodes.map((node) => [node, add(node, rankOf.get(node)!)]));
  const span = ({ from, to }: ForwardEdge) => rankOf.get(to)! - rankOf.get(from)!;
  let dummies = 0;
  // Shorter edges first: they get their dummies while there are some. The sort is stable.
  const chains = [...edges]
    .sort((one, other) => span(one) - span(other))
    .map((edge) => {
      const [source, target] = [vertexOf.get(edge.from)!, vertexOf.get(edge.to)!];
      const chain = [source];
      if (dummies + span(edge) - 1 <= MAX_DUMMIES) {
        dummies += span(edge) - 1;
        for (let rank = source.rank + 1; rank < target.rank; rank++) chain.push(add(-1, rank));
        chain.push(target);
        for (let at = 1; at < chain.length; at++) {
          chain[at - 1]!.after.push(chain[at]!);
          chain[at]!.before.push(chain[at - 1]!);
        }
      } else {
        chain.push(target);
      }
      return { edge: edge.edge, isReversed: edge.isReversed, chain };
    });
  return { layers, chains };
}

/** Sorts each layer so that few edges cross: sweeps forth and back by barycentres; the best result stays. */
function orderLayers(layers: Vertex[][]): void {
  number(layers);
  sweep(layers, true);
  let best = layers.map((layer) => [...layer]);
  let fewest = crossings(layers);
  for (let turn = 1; turn <= ORDER_SWEEPS && fewest > 0; turn++) {
    sweep(layers, turn % 2 === 0);
    const count = crossings(layers);
    if (count < fewest) {
      fewest = count;
      best = layers.map((layer) => [...layer]);
    }
  }
  best.forEach((layer, rank) => (layers[rank] = layer));
  number(layers);
}

function number(layers: Vertex[][]): void {
  for (const layer of layers) layer.forEach((vertex, place) => (vertex.place = place));
}

function sweep(layers: Vertex[][], isForward: boolean): void {
  for (const layer of isForward ? layers : [...layers].reverse()) {
    for (const vertex of layer) {
      const fixed = isForward ? vertex.before : vertex.after;
      // One without neighbours on that side stays where it is.
      vertex.key = fixed.length === 0 ? vertex.place : mean(fixed, placeOf);
    }
    layer.sort((one, other) => one.key - other.key || one.place - other.place);
    layer.forEach((vertex, place) => (vertex.place = place));
  }
}

function placeOf(vertex: Vertex): number {
  return vertex.place;
}

function mean(vertices: Vertex[], of: (vertex: Vertex) => number): number {
  let sum = 0;
  for (const vertex of vertices) sum += of(vertex);
  return sum / vertices.length;
}

/** How many edges between neighbouring ranks cross, counted with a Fenwick tree. */
function crossings(layers: Vertex[][]): number {
  let count = 0;
  for (let rank = 0; rank + 1 < layers.length; rank++) {
    const size = layers[rank + 1]!.length;
    const tree = new Uint32Array(size + 1);
    let seen = 0;
    for (const vertex of layers[rank]!) {
      const places = vertex.after.map(placeOf).sort((one, other) => one - other);
      for (const place of places) {
        let below = 0;
        for (let at = place + 1; at > 0; at -= at & -at) below += tree[at]!;
        count += seen - below;
      }
      for (const place of places) for (let at = place + 1; at <= size; at += at & -at) tree[at]!++;
      seen += places.length;
    }
  }
  return count;
}

/** Moves the vertices of each layer, in their order, towards their neighbours. Returns the height; y are middles. */
function alignLayers(layers: Vertex[][]): number {
  for (const layer of layers) spread(layer, () => ({ y: 0, weight: 1 }));
  for (let turn = 0; turn < ALIGN_SWEEPS; turn++) {
    const isForward = turn % 2 === 0;
    for (const layer of isForward ? layers : [...layers].reverse()) {
      spread(layer, (vertex) => wish(vertex, isForward ? vertex.before : vertex.after));
    }
  }
  let top = Infinity;
  let bottom = -Infinity;
  for (const layer of layers) {
    for (const vertex of layer) {
      top = Math.min(top, vertex.y - room(vertex));
      bottom = Math.max(bottom, vertex.y + room(vertex));
    }
  }
  for (const layer of layers) for (const vertex of layer) vertex.y -= top;
  return bottom - top;
}

interface Wish {
  y: number;
  weight: number;
}

function wish(vertex: Vertex, neighbours: Vertex[]): Wish {
  if (neighbours.length === 0) return { y: vertex.y, weight: 1 };
  const isLine = vertex.node < 0 && neighbours[0]!.node < 0;
  return { y: mean(neighbours, (one) => one.y), weight: isLine ? DUMMY_PULL : 1 };
}

/** Half the height that a vertex takes. */
function room(vertex: Vertex): number {
  return vertex.node < 0 ? 0 : NODE_HEIGHT / 2;
}

function distance(one: Vertex, other: Vertex): number {
  const gap = one.node < 0 || other.node < 0 ? EDGE_GAP : NODE_GAP;
  return room(one) + gap + room(other);
}

/**
 * Gives a layer the positions nearest to those wished (least squares) that keep its order and distances: isotonic
 * regression by pooling neighbours that violate the order.
 */
function spread(layer: Vertex[], wished: (vertex: Vertex) => Wish): void {
  const offsets: number[] = [];
  const blocks: { value: number; weight: number; size: number }[] = [];
  let offset = 0;
  layer.forEach((vertex, at) => {
    if (at > 0) offset += distance(layer[at - 1]!, vertex);
    offsets.push(offset);
    const { y, weight } = wished(vertex);
    let block = { value: y - offset, weight, size: 1 };
    for (let last = blocks.at(-1); last && last.value >= block.value; last = blocks.at(-1)) {
      const total = last.weight + block.weight;
      const value = (last.value * last.weight + block.value * block.weight) / total;
      block = { value, weight: total, size: last.size + block.size };
      blocks.pop();
    }
    blocks.push(block);
  });
  let at = 0;
  for (const block of blocks) {
    for (let left = block.size; left > 0; left--, at++) layer[at]!.y = block.value + offsets[at]!;
  }
}

/** Places the boxes on shelves, in their order, in about the shape of a screen. */
function packed(boxes: Box[]): { offsets: { x: number; y: number }[]; width: number; height: number } {
  let area = 0;
  let widest = 0;
  for (const box of boxes) {
    area += (box.width + COMPONENT_GAP) * (box.height + COMPONENT_GAP);
    widest = Math.max(widest, box.width);
  }
  const target = Math.max(widest, Math.sqrt(area * ASPECT_RATIO));
  const offsets: { x: number; y: number }[] = [];
  let [x, y, shelf, width] = [0, 0, 0, 0];
  for (const box of boxes) {
    if (x > 0 && x + box.width > target) {
      y += shelf + COMPONENT_GAP;
      [x, shelf] = [0, 0];
    }
    offsets.push({ x, y });
    width = Math.max(width, x + box.width);
    shelf = Math.max(shelf, box.height);
    x += box.width + COMPONENT_GAP;
  }
  return { offsets, width, height: y + shelf };
}

function reversedPath(path: number[]): number[] {
  const reversed: number[] = [];
  for (let at = path.length - 2; at >= 0; at -= 2) reversed.push(path[at]!, path[at + 1]!);
  return reversed;
}

function flattened(paths: number[][]): { points: Float32Array; pointStart: Uint32Array } {
  const pointStart = new Uint32Array(paths.length + 1);
  for (let edge = 0; edge < paths.length; edge++) {
    pointStart[edge + 1] = pointStart[edge]! + (paths[edge]?.length ?? 0) / 2;
  }
  const points = new Float32Array(pointStart[paths.length]! * 2);
  for (let edge = 0; edge < paths.length; edge++) points.set(paths[edge] ?? [], pointStart[edge]! * 2);
  return { points, pointStart };
}
