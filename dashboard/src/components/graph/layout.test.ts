import { describe, expect, test } from "vitest";

import { type Layout, layoutGraph, NODE_GAP, NODE_HEIGHT, NODE_WIDTH } from "./layout";

type Pair = readonly [number, number];

function layout(nodeCount: number, edges: readonly Pair[]): Layout {
  return layoutGraph({ nodeCount, edges: edges.flat() });
}

/** A fixed sequence of pseudo-random numbers below `limit` (a linear congruential generator). */
function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

function grid(columns: number, rows: number, parents: number): Pair[] {
  const edges: Pair[] = [];
  const random = numbers(columns + parents);
  for (let column = 1; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      const chosen = new Set([row]);
      while (chosen.size < parents) chosen.add(random(rows));
      for (const parent of chosen) edges.push([(column - 1) * rows + parent, column * rows + row]);
    }
  }
  return edges;
}

function randomGraph(seed: number, isAcyclic: boolean): { nodeCount: number; edges: Pair[] } {
  const random = numbers(seed);
  const nodeCount = 1 + random(60);
  const edges: Pair[] = [];
  for (let left = random(120); left > 0; left--) {
    const [one, other] = [random(nodeCount), random(nodeCount)];
    if (!isAcyclic || one < other) edges.push([one, other]);
    else if (other < one) edges.push([other, one]);
  }
  return { nodeCount, edges };
}

function overlaps({ x, y }: Layout): Pair[] {
  const found: Pair[] = [];
  for (let one = 0; one < x.length; one++) {
    for (let other = 0; other < one; other++) {
      const isApart = Math.abs(x[one]! - x[other]!) >= NODE_WIDTH || Math.abs(y[one]! - y[other]!) >= NODE_HEIGHT;
      if (!isApart) found.push([one, other]);
    }
  }
  return found;
}

function path({ points, pointStart }: Layout, edge: number): Pair[] {
  const found: Pair[] = [];
  for (let at = pointStart[edge]!; at < pointStart[edge + 1]!; at++) found.push([points[2 * at]!, points[2 * at + 1]!]);
  return found;
}

const seeds = Array.from({ length: 25 }, (_, seed) => seed);

describe("any graph", () => {
  test.each(seeds)("has no overlapping nodes and keeps its size (seed %i)", (seed) => {
    const { nodeCount, edges } = randomGraph(seed, false);

    const placed = layout(nodeCount, edges);

    expect(overlaps(placed)).toEqual([]);
    for (let node = 0; node < nodeCount; node++) {
      expect(placed.x[node]).toBeGreaterThanOrEqual(0);
      expect(placed.y[node]).toBeGreaterThanOrEqual(-0.01);
      expect(placed.x[node]! + NODE_WIDTH).toBeLessThanOrEqual(placed.width + 0.01);
      expect(placed.y[node]! + NODE_HEIGHT).toBeLessThanOrEqual(placed.height + 0.01);
    }
  });

  test.each(seeds)("draws each edge from its source to its target (seed %i)", (seed) => {
    const { nodeCount, edges } = randomGraph(seed, false);

    const placed = layout(nodeCount, edges);

    edges.forEach(([from, to], edge) => {
      const points = path(placed, edge);
      if (from === to) return expect(points).toEqual([]);
      const [first, last] = [points[0]!, points.at(-1)!];
      expect([placed.x[from]!, placed.x[from]! + NODE_WIDTH]).toContain(first[0]);
      expect(first[1]).toBeCloseTo(placed.y[from]! + NODE_HEIGHT / 2, 1);
      expect([placed.x[to]!, placed.x[to]! + NODE_WIDTH]).toContain(last[0]);
      expect(last[1]).toBeCloseTo(placed.y[to]! + NODE_HEIGHT / 2, 1);
    });
  });

  test.each(seeds)("gets the same layout each time (seed %i)", (seed) => {
    const { nodeCount, edges } = randomGraph(seed, false);

    expect(layout(nodeCount, edges)).toEqual(layout(nodeCount, edges));
  });
});

test.each(seeds)("edges of a graph without cycles lead to the right (seed %i)", (seed) => {
  const { nodeCount, edges } = randomGraph(seed, true);

  const { x } = layout(nodeCount, edges);

  for (const [from, to] of edges) expect(x[from]! + NODE_WIDTH).toBeLessThan(x[to]!);
});

test("only the edge that closes a cycle leads to the left", () => {
  const { x } = layout(3, [
    [0, 1],
    [1, 2],
    [2, 0],
  ]);

  expect(x[0]).toBeLessThan(x[1]!);
  expect(x[1]).toBeLessThan(x[2]!);
});

test("edges to unknown nodes and to the node itself are not drawn", () => {
  const placed = layout(2, [
    [0, 0],
    [0, 7],
    [-1, 1],
    [0, 1],
  ]);

  expect(path(placed, 0)).toEqual([]);
  expect(path(placed, 1)).toEqual([]);
  expect(path(placed, 2)).toEqual([]);
  expect(path(placed, 3)).toHaveLength(2);
});

test("a graph without nodes has no size", () => {
  expect(layout(0, [])).toMatchObject({ width: 0, height: 0 });
});

test("nodes without edges fill a block in reading order", () => {
  const { x, y, width, height } = layout(100, []);

  expect(width / height).toBeGreaterThan(1);
  expect(width / height).toBeLessThan(3);
  for (let node = 1; node < 100; node++) {
    expect(y[node]! > y[node - 1]! || (y[node] === y[node - 1] && x[node]! > x[node - 1]!)).toBe(true);
  }
});

test("a chain is a straight line", () => {
  const { y } = layout(50, Array.from({ length: 49 }, (_, at): Pair => [at, at + 1]));

  expect(new Set(y)).toEqual(new Set([0]));
});

test("a fork and its join are symmetric", () => {
  const { y } = layout(5, [
    [0, 1],
    [0, 2],
    [0, 3],
    [1, 4],
    [2, 4],
    [3, 4],
  ]);

  expect(y[0]).toBeCloseTo(y[2]!, 1);
  expect(y[4]).toBeCloseTo(y[2]!, 1);
  expect(y[2]! - y[1]!).toBeCloseTo(NODE_HEIGHT + NODE_GAP, 1);
  expect(y[3]! - y[2]!).toBeCloseTo(NODE_HEIGHT + NODE_GAP, 1);
});

test("rows that need not cross do not", () => {
  const { y } = layout(6, [
    [0, 5],
    [1, 4],
    [2, 3],
    [0, 4],
    [1, 3],
  ]);

  expect(Math.sign(y[0]! - y[1]!)).toBe(Math.sign(y[5]! - y[4]!));
  expect(Math.sign(y[1]! - y[2]!)).toBe(Math.sign(y[4]! - y[3]!));
});

/** How many edges between the same two columns cross. */
function crossings({ x, y }: Layout, edges: readonly Pair[]): number {
  let count = 0;
  for (const [a, b] of edges) {
    for (const [c, d] of edges) {
      if (x[a] === x[c] && x[b] === x[d] && y[a]! < y[c]! && y[b]! > y[d]!) count += 1;
    }
  }
  return count;
}

test.each([1, 2, 3, 4, 5])("branches that join have no crossings, whatever the order of the nodes (seed %i)", (seed) => {
  const random = numbers(seed);
  const names = Array.from({ length: 31 }, (_, node) => node);
  for (let at = names.length - 1; at > 0; at--) {
    const other = random(at + 1);
    [names[at], names[other]] = [names[other]!, names[at]!];
  }
  // A binary tree: the 16 leaves lead to node 0.
  const edges = Array.from({ length: 30 }, (_, at): Pair => [names[at + 1]!, names[Math.floor(at / 2)]!]);

  expect(crossings(layout(31, edges), edges)).toBe(0);
});

test("an edge over several ranks does not pass through the nodes between", () => {
  const placed = layout(4, [
    [0, 1],
    [1, 2],
    [2, 3],
    [0, 3],
  ]);

  for (const [px, py] of path(placed, 3).slice(1, -1)) {
    for (const node of [1, 2]) {
      const isInside =
        px >= placed.x[node]! &&
        px <= placed.x[node]! + NODE_WIDTH &&
        py > placed.y[node]! &&
        py < placed.y[node]! + NODE_HEIGHT;
      expect(isInside).toBe(false);
    }
  }
});

describe("large graphs are laid out without recursion and within bounds", () => {
  const chain = Array.from({ length: 1999 }, (_, at): Pair => [at, at + 1]);
  const random = numbers(1);
  const dense = Array.from({ length: 20_000 }, (): Pair => {
    const [one, other] = [random(2000), random(2000)];
    return one < other ? [one, other] : [other, one];
  });
  test.each([
    ["a chain of 2,000", 2000, chain],
    ["40 × 50 with one parent", 2000, grid(40, 50, 1)],
    ["40 × 50 with two parents", 2000, grid(40, 50, 2)],
    ["40 × 50 with three parents", 2000, grid(40, 50, 3)],
    ["2,000 nodes and 20,000 edges of any length", 2000, dense],
    ["a fork to 1,998 and a join", 2000, Array.from({ length: 1998 }, (_, at): Pair[] => [[0, at + 1], [at + 1, 1999]]).flat()],
    ["2,000 nodes without edges", 2000, []],
  ] as const)("%s", (_name, nodeCount, edges) => {
    const placed = layout(nodeCount, edges);

    expect(placed.x).toHaveLength(nodeCount);
    expect(Number.isFinite(placed.width + placed.height)).toBe(true);
    expect(placed.points.every(Number.isFinite)).toBe(true);
    expect(placed.points.length / 4).toBeLessThanOrEqual(edges.length + 20_000);
  });
});
