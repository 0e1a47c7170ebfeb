import { expect, test } from "vitest";
import { isFresh, isUnserved, TILES, type Overview, type Queue } from "./overview";

const runs = Object.fromEntries(TILES.map((status) => [status, 0])) as Overview["runs"];

test("a gateway is fresh without any run", () => {
  expect(isFresh({ runs } as Overview)).toBe(true);
  expect(isFresh({ runs: { ...runs, CANCELLED: 1 } } as Overview)).toBe(false);
});

test("a queue is unserved when runs wait and it is known that there is no worker", () => {
  const queue = (pending: number, workers: number | null) => ({ pending, workers }) as Queue;

  expect([queue(2, 0), queue(0, 0), queue(2, 1), queue(2, null)].map(isUnserved)).toEqual([true, false, false, false]);
});
