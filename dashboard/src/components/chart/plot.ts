// Draws a chart on a canvas. Loaded when the first chart is shown.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { localDay, localHour } from "../../format";
import { decadesAround, isDecade, isolated, tickLabels, type Values } from "./points";

export interface PlotSeries {
  readonly label: string;
  readonly values: Values;
  /** A custom property with the colour. */
  readonly colour: string;
  readonly dash: readonly number[];
}

export interface PlotOptions {
  readonly times: readonly number[];
  readonly since: number;
  readonly until: number;
  readonly series: readonly PlotSeries[];
  readonly isLogarithmic: boolean;
  readonly format: (value: number) => string;
  readonly onPoint: (index: number | null) => void;
}

const HEIGHT = 200;
const WHOLE_NUMBERS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7, 1e8];

export function drawPlot(element: HTMLElement, options: PlotOptions): () => void {
  const style = getComputedStyle(element);
  const axis = { stroke: resolved(element, "--text-muted"), font: `12px ${style.fontFamily}`, grid: { stroke: resolved(element, "--line"), width: 1 }, ticks: { show: false } };
  const plot = new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      padding: [12, 24, 0, 0],
      cursor: { y: false, drag: { x: false, y: false, setScale: false } },
      scales: {
        x: { range: [options.since, options.until] },
        y: options.isLogarithmic
          ? { distr: 3, range: (_, least, most) => (least > 0 ? decadesAround(least, most) : [0.01, 10]) }
          : { range: (_, __, most) => [0, Math.max(most * 1.1, 4)] },
      },
      axes: [
        { ...axis, size: 32, space: 72, values: (_, ticks, __, ___, distance) => tickLabels(ticks, distance, { day: localDay, time: localHour }) },
        {
          ...axis,
          size: 64,
          gap: 8,
          ...(options.isLogarithmic ? { filter: decadesOnly, grid: { ...axis.grid, filter: decadesOnly } } : { incrs: WHOLE_NUMBERS }),
          values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : options.format(tick))),
        },
      ],
      series: [
        {},
        ...options.series.map((series) => ({
          label: series.label,
          stroke: resolved(element, series.colour),
          width: 2,
          dash: [...series.dash],
          points: { show: true, size: 5, filter: () => isolated(series.values) },
        })),
      ],
      hooks: { setCursor: [(drawn) => options.onPoint(drawn.cursor.idx ?? null)] },
    },
    [[...options.times], ...options.series.map((series) => [...series.values])],
    element,
  );
  const resize = new ResizeObserver(() => {
    if (element.clientWidth > 0 && element.clientWidth !== plot.width) plot.setSize({ width: element.clientWidth, height: HEIGHT });
  });
  resize.observe(element);
  return () => {
    resize.disconnect();
    plot.destroy();
  };
}

/** A line for each power of ten; those between them would be a hatching. */
function decadesOnly(_: uPlot, ticks: number[]): (number | null)[] {
  return ticks.map((tick) => (isDecade(tick) ? tick : null));
}

/** The colour behind a custom property: a canvas does not know `light-dark()`. */
function resolved(element: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
