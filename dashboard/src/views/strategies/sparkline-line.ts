// The points of a small chart.

export interface Dot {
  readonly at: number;
  readonly value: number;
}

export interface Line {
  /** In a box of 100 × 100, the oldest on the left and the largest at the top. */
  readonly points: readonly (readonly [x: number, y: number])[];
  readonly least: number;
  readonly most: number;
}

/** Null without a value. Values that are equal are a line in the middle. */
export function lineOf(dots: readonly Dot[]): Line | null {
  const known = dots.filter((dot) => Number.isFinite(dot.at) && Number.isFinite(dot.value)).sort((one, other) => one.at - other.at);
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) return null;
  const values = known.map((dot) => dot.value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const x = (at: number): number => (last.at === first.at ? 100 : ((at - first.at) / (last.at - first.at)) * 100);
  const y = (value: number): number => (most === least ? 50 : 100 - ((value - least) / (most - least)) * 100);
  return { points: known.map((dot) => [x(dot.at), y(dot.value)] as const), least, most };
}
