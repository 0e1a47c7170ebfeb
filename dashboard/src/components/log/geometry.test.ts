import { expect, test } from "vitest";
import { centred, heightOf, kept, MAX_HEIGHT, moved, offsetAt, placeAt, placeOf, rowsAround, scrollTopOf, type Box, type Measured } from "./geometry";

const MILLION: Box = { rows: 1_000_000, rowHeight: 20, height: 600 };

function even(first: number, last: number, height = 20): Measured {
  return { first, edges: Array.from({ length: last - first + 1 }, (_, index) => index * height) };
}

test("the ends of the log meet the ends of the window", () => {
  expect(offsetAt(even(0, 50), 0, MILLION)).toBe(0);
  const end = even(999_950, 1_000_000, 47); // rows that wrap
  expect(offsetAt(end, 1_000_000, MILLION)).toBe(50 * 47 - 600);
});

test("the height of the scrolled element stays within what browsers can show", () => {
  expect(heightOf(MILLION, null)).toBe(MAX_HEIGHT);
  expect(heightOf({ ...MILLION, rows: 100 }, null)).toBe(2000);
  expect(heightOf({ ...MILLION, rows: 2 }, { first: 0, edges: [0, 500, 1500] })).toBe(1500);
});

test("the scroll bar reaches every line of a log of a million lines", () => {
  for (const place of [0, 1, 123_456.5, 999_999, 1_000_000]) {
    expect(placeAt(scrollTopOf(place, MAX_HEIGHT, MILLION), MAX_HEIGHT, MILLION)).toBeCloseTo(place, 6);
  }
  expect(placeAt(-5, MAX_HEIGHT, MILLION)).toBe(0);
  expect(placeAt(2 * MAX_HEIGHT, MAX_HEIGHT, MILLION)).toBe(1_000_000);
});

test("a move by pixels is exact, however the scroll bar is scaled", () => {
  const measured = even(500_000, 500_100);
  const before = 500_050;

  const after = moved(measured, before, 100, MILLION);

  expect(offsetAt(measured, after, MILLION) - offsetAt(measured, before, MILLION)).toBeCloseTo(100, 2);
  expect(moved(measured, after, -100, MILLION)).toBeCloseTo(before, 3);
});

test("a move inside of a very high row stays in it", () => {
  const edges = [0, 20, 40, 9040, 9060];
  const measured = { first: 500, edges };
  const box = { ...MILLION, rows: 1000 };
  const place = moved(measured, 502.1, 300, box);

  expect(Math.floor(place)).toBe(502);
  expect(offsetAt(measured, place, box) - offsetAt(measured, 502.1, box)).toBeCloseTo(300, 1);
});

test("what is in the window stays when lines are added or the window grows", () => {
  const measured = even(40, 100, 33);
  const before = { ...MILLION, rows: 100 };
  for (const box of [{ ...before, rows: 200 }, { ...before, height: 300 }]) {
    const after = kept(measured, 70.3, before, box);

    expect(offsetAt(measured, after, box)).toBeCloseTo(offsetAt(measured, 70.3, before), 2);
  }
});

test("a move ends at the ends of the log", () => {
  expect(moved(even(0, 50), 3, -10_000, MILLION)).toBeCloseTo(0, 4);
  expect(moved(even(999_950, 1_000_000), 999_999, 10_000, MILLION)).toBeCloseTo(1_000_000, 4);
});

test("the rows in the document are few and cover the window", () => {
  for (const place of [0, 17.3, 500_000, 999_999.9, 1_000_000]) {
    const { first, last } = rowsAround(place, MILLION);
    const top = (place / MILLION.rows) * (MILLION.rows - 30);

    expect(last - first).toBeLessThanOrEqual(60);
    expect(first).toBeLessThanOrEqual(Math.floor(top));
    expect(last).toBeGreaterThanOrEqual(Math.min(MILLION.rows, Math.ceil(top + 30)));
  }
});

test("a wanted row is in the middle of the window", () => {
  for (const row of [0, 10, 777_777, 999_999]) {
    const place = placeOf(row, MILLION);
    const { first, last } = rowsAround(place, MILLION);
    const top = offsetAt(even(first, last), place, MILLION) + first * 20;

    expect(row * 20).toBeGreaterThanOrEqual(top - 0.01);
    expect(row * 20 + 20).toBeLessThanOrEqual(top + 600.01);
  }
  expect(placeOf(3, { ...MILLION, rows: 10 })).toBe(0);
});

test("a row between rows that wrap is in the middle of the window", () => {
  const edges = [0, 20, 40, 340, 640, 660, 680, 1180, 1200];
  const box = { ...MILLION, rows: 1000 };

  for (const row of [503, 505]) {
    const top = offsetAt({ first: 500, edges }, centred({ first: 500, edges }, row, box), box);
    const middle = ((edges[row - 500] ?? 0) + (edges[row - 499] ?? 0)) / 2;

    expect(middle - top).toBeCloseTo(300, 0);
  }
});

test("a log that fits is not moved", () => {
  expect(offsetAt(even(0, 3), 2, { ...MILLION, rows: 3 })).toBe(0);
});
