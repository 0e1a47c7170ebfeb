// A small chart of one indicator over time, with its description in words.

import { localTime, number } from "../../format";
import { t } from "../../texts";
import { lineOf, type Dot } from "./sparkline-line";

const DIGITS = 3;

export function Sparkline({ name, dots }: { name: string; dots: readonly Dot[] }) {
  const line = lineOf(dots);
  if (line === null) return null;
  const times = dots.map((dot) => dot.at);
  const label = t.value.strategies.chart(
    name,
    number(line.points.length),
    localTime(Math.min(...times)),
    localTime(Math.max(...times)),
    number(line.least, DIGITS),
    number(line.most, DIGITS),
  );
  const last = line.points.at(-1);
  return (
    <div class="sparkline">
      <svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={label}>
        <title>{label}</title>
        <polyline points={line.points.map((point) => point.join(",")).join(" ")} vector-effect="non-scaling-stroke" />
        {last && <path class="newest" d={`M${last[0]},${last[1]}h0`} vector-effect="non-scaling-stroke" />}
      </svg>
      <span class="sparkline-range muted small number" aria-hidden="true">
        <span>{number(line.most, DIGITS)}</span>
        <span>{number(line.least, DIGITS)}</span>
      </span>
    </div>
  );
}
