// Points of a time series without a neighbour, which a line does not show, and the labels of a time axis.

export type Values = readonly (number | null)[];

/** The indexes of values whose neighbours are both absent. */
export function isolated(values: Values): number[] {
  const found: number[] = [];
  values.forEach((value, index) => {
    if (value !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null) found.push(index);
  });
  return found;
}

/** No line along the axis for what never happened. */
export function drawnValues(values: Values): Values {
  return values.every((value) => value === 0) ? values.map(() => null) : values;
}

const DAY = 86_400;

/** What tells the ticks of a time axis apart: the day, or the time and the day where one begins. */
export function tickLabels(ticks: readonly number[], distanceSec: number, words: { day(at: number): string; time(at: number): string }): string[] {
  let shown = "";
  return ticks.map((at) => {
    const day = words.day(at);
    if (distanceSec >= DAY) return day;
    const isNewDay = shown !== "" && day !== shown;
    shown = day;
    return isNewDay ? day : words.time(at);
  });
}

export function isDecade(value: number): boolean {
  const power = Math.log10(value);
  return Math.abs(power - Math.round(power)) < 1e-6;
}

/** The powers of ten around the values of a logarithmic axis. */
export function decadesAround(least: number, most: number): [number, number] {
  const from = 10 ** Math.floor(Math.log10(least));
  const to = 10 ** Math.ceil(Math.log10(most));
  return [from, to > from ? to : from * 10];
}
