// A time series as lines, with a legend that has the values under the pointer, and the same as a table.

import { useEffect, useRef, useState } from "preact/hooks";
import { localTime } from "../../format";
import { language } from "../../language";
import { t } from "../../texts";
import { isDark } from "../../theme";
import { DataTable } from "../data-table";
import { Time } from "../time";
import { drawnValues, type Values } from "./points";
import "./chart.css";

export interface ChartSeries {
  readonly label: string;
  readonly values: Values;
  /** A custom property with the colour. */
  readonly colour: string;
  /** Lengths of lines and gaps: a line is known by them too. */
  readonly dash?: readonly number[];
  /** About all points together; shown while there is no pointer. */
  readonly summary: string;
}

export interface ChartProps {
  readonly title: string;
  readonly times: readonly number[];
  readonly since: number;
  readonly until: number;
  readonly series: readonly ChartSeries[];
  readonly isLogarithmic?: boolean;
  readonly format: (value: number) => string;
}

const SOLID: readonly number[] = [];

export function Chart({ title, times, since, until, series, isLogarithmic = false, format }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const [point, setPoint] = useState<number | null>(null);
  const drawn = JSON.stringify([times, since, until, series.map((one) => one.values)]);
  useEffect(() => {
    let remove: (() => void) | null = null;
    let isGone = false;
    void import("./plot").then(({ drawPlot }) => {
      if (isGone || !box.current) return;
      const lines = series.map(({ label, values, colour, dash = SOLID }) => ({ label, values: drawnValues(values), colour, dash }));
      remove = drawPlot(box.current, { times, since, until, series: lines, isLogarithmic, format, onPoint: setPoint });
    });
    return () => {
      isGone = true;
      remove?.();
      setPoint(null);
    };
  }, [drawn, isLogarithmic, isDark.value, language.value]);
  const at = point === null ? undefined : times[point];
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <span class="muted small number">{at === undefined ? "" : localTime(at)}</span>
      </figcaption>
      <ul class="chart-legend">
        {series.map((one) => (
          <li key={one.label}>
            <Swatch colour={one.colour} dash={one.dash ?? SOLID} />
            {one.label}
            <span class="number">{at === undefined || point === null ? one.summary : shown(one.values[point], format)}</span>
          </li>
        ))}
      </ul>
      <div ref={box} class="chart-plot" aria-hidden="true" />
      <ChartTable title={title} times={times} series={series} format={format} />
    </figure>
  );
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "–" : format(value);
}

function Swatch({ colour, dash }: { colour: string; dash: readonly number[] }) {
  return (
    <svg class="chart-swatch" viewBox="0 0 24 8" aria-hidden="true">
      <path d="M0 4h24" style={{ stroke: `var(${colour})`, strokeDasharray: dash.join(" ") }} />
    </svg>
  );
}

function ChartTable({ title, times, series, format }: Pick<ChartProps, "title" | "times" | "series" | "format">) {
  const [isOpen, setIsOpen] = useState(false);
  const texts = t.value.chart;
  const columns = [
    { key: "time", title: texts.time, isHead: true, cell: (row: number) => <Time at={times[row]} as="local" /> },
    ...series.map((one) => ({ key: one.label, title: one.label, isNumber: true, cell: (row: number) => shown(one.values[row], format) })),
  ];
  // The newest first; without rows for times in which nothing happened.
  const rows = [...times.keys()].filter((row) => series.some((one) => one.values[row])).reverse();
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>{texts.asTable}</summary>
      {isOpen && (rows.length > 0 ? <DataTable caption={title} columns={columns} rows={rows} keyOf={(row) => row} /> : <p class="muted">{texts.nothing}</p>)}
    </details>
  );
}
