import { describe, expect, test } from "vitest";

import { layoutGraph, NODE_HEIGHT, NODE_WIDTH } from "./layout";
import { centred, first, fitted, isInSight, neighbour, nodeAt, panned, READABLE, zoomed } from "./viewport";

const canvas = { width: 800, height: 400 };
// 0 → 1 → 3 and 0 → 2 → 3
const diamond = layoutGraph({ nodeCount: 4, edges: [0, 1, 0, 2, 1, 3, 2, 3] });

describe("fitting", () => {
  test("shows all of a large graph in the middle", () => {
    const view = fitted({ width: 8000, height: 100 }, canvas);

    expect(view.left).toBeCloseTo(canvas.width - (view.left + 8000 * view.scale));
    expect(view.left).toBeGreaterThan(0);
    expect(view.top).toBeCloseTo(canvas.height - (view.top + 100 * view.scale));
  });

  test("does not enlarge a small graph", () => {
    expect(fitted({ width: 10, height: 10 }, canvas).scale).toBe(1);
  });

  test("an empty graph and a canvas without size have a scale", () => {
    expect(fitted({ width: 0, height: 0 }, { width: 0, height: 0 }).scale).toBeGreaterThan(0);
  });
});

test("few nodes in a narrow place are readable at first, many are all in sight", () => {
  const wide = { width: 3000, height: 60 };
  const narrow = { width: 300, height: 300 };

  expect(first(wide, narrow, 12).scale).toBeGreaterThan(READABLE);
  expect(first(wide, narrow, 12).left).toBeGreaterThan(0);
  expect(first(wide, narrow, 1200)).toEqual(fitted(wide, narrow));
});

test("zooming keeps the point under the pointer", () => {
  const before = { scale: 0.5, left: 13, top: 29 };

  const after = zoomed(before, 1.7, 200, 100);

  expect((200 - after.left) / after.scale).toBeCloseTo((200 - before.left) / before.scale);
  expect((100 - after.top) / after.scale).toBeCloseTo((100 - before.top) / before.scale);
});

test("zooming has bounds", () => {
  const view = { scale: 1, left: 0, top: 0 };

  expect(zoomed(view, 1e9, 0, 0).scale).toBe(2);
  expect(zoomed(view, 1e-9, 0, 0).scale).toBe(0.01);
});

test("the node at a point follows pan and zoom", () => {
  const view = panned(zoomed({ scale: 1, left: 0, top: 0 }, 0.5, 0, 0), 30, 40);
  const x = (diamond.x[2]! + NODE_WIDTH / 2) * 0.5 + 30;
  const y = (diamond.y[2]! + NODE_HEIGHT / 2) * 0.5 + 40;

  expect(nodeAt(view, diamond, x, y)).toBe(2);
  expect(nodeAt(view, diamond, 0, 0)).toBe(-1);
});

test("a centred node is in sight", () => {
  const view = { scale: 0.1, left: -9000, top: 0 };

  expect(isInSight(view, diamond, 3, canvas)).toBe(false);
  expect(isInSight(centred(view, diamond, 3, canvas), diamond, 3, canvas)).toBe(true);
});

test("arrow keys lead to the neighbours", () => {
  expect(neighbour(diamond, 1, "left")).toBe(0);
  expect(neighbour(diamond, 1, "right")).toBe(3);
  expect(neighbour(diamond, 1, "down")).toBe(2);
  expect(neighbour(diamond, 2, "up")).toBe(1);
  expect(neighbour(diamond, 3, "right")).toBe(-1);
});
