// How many runs were submitted and ended, and how long they waited and ran, over a range that is part of the address.

import { api, body } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { duration, longDuration, number, percent } from "../../format";
import { hashOf, place } from "../../router";
import { t } from "../../texts";
import { Chart, type ChartSeries } from "../chart";
import { filterValue } from "../filter-fields";
import { Loading, Notice, ProblemNotice } from "../notice";
import { statusText } from "../status";
import { Time } from "../time";
import { drawnPoints, isCut, RANGES, rangeOf, stepOf, successShare, windowOf, type Range, type Stats, type Totals } from "./stats";
import "./run-charts.css";

/** Of all runs, or of those of a flow. */
export function RunCharts({ flow }: { flow?: string }) {
  const texts = t.value.chart;
  const range = rangeOf(filterValue("range"));
  const { data, problem, isLoading, refresh } = useQuery(
    JSON.stringify([flow, range]),
    async (signal) => {
      const query = { ...windowOf(range, Date.now() / 1000), ...(flow !== undefined && { flow }) };
      return await body(api.GET("/stats", { params: { query }, signal }));
    },
    { everyMs: RANGES[range].everyMs },
  );
  const share = data && successShare(data.total);
  return (
    <section class="run-charts" aria-label={texts.label}>
      <header>
        <RangeTabs present={range} />
        {typeof share === "number" && <span class="muted">{texts.success(percent(share, 1))}</span>}
      </header>
      {problem && <ProblemNotice problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data && isCut(data) && <CutNotice stats={data} />}
      {data && <Charts stats={data} />}
    </section>
  );
}

function RangeTabs({ present }: { present: Range }) {
  const texts = t.value.chart;
  const { path, query } = place.value;
  const addressOf = (range: string): string => {
    const changed = new URLSearchParams(query);
    changed.set("range", range);
    return hashOf(path, changed);
  };
  return (
    <nav class="tabs" aria-label={texts.range}>
      {(Object.keys(RANGES) as Range[]).map((range) => (
        <a key={range} href={addressOf(range)} aria-current={range === present ? "true" : undefined}>
          {texts.ranges[range]}
        </a>
      ))}
    </nav>
  );
}

function CutNotice({ stats }: { stats: Stats }) {
  return (
    <Notice>
      <p>
        {t.value.chart.cut(longDuration(stats.retention_sec))} {stats.kept_since !== null && <Time at={stats.kept_since} as="local" />}
      </p>
    </Notice>
  );
}

function Charts({ stats }: { stats: Stats }) {
  const texts = t.value.chart;
  const { unit, count } = stepOf(stats.step_sec);
  const points = drawnPoints(stats);
  const times = points.map((point) => point.at);
  const frame = { times, since: stats.since, until: stats.until };
  const line = (name: keyof Totals, label: string, colour: string, dash: readonly number[], format: (value: number) => string): ChartSeries => ({
    label,
    colour,
    dash,
    values: points.map((point) => point[name]),
    summary: stats.total[name] === null ? "–" : format(stats.total[name]),
  });
  return (
    <div class="run-charts-pair">
      <div class="card">
        <Chart
          {...frame}
          title={texts.runsPer[unit](count)}
          format={number}
          series={[
            line("submitted", texts.submitted, "--text-muted", [2, 3], number),
            line("completed", statusText("COMPLETED"), "--completed", [], number),
            line("failed", statusText("FAILED"), "--failed", [8, 3], number),
            line("cancelled", statusText("CANCELLED"), "--cancelled", [10, 3, 2, 3], number),
          ]}
        />
      </div>
      <div class="card">
        <Chart
          {...frame}
          title={texts.durations}
          isLogarithmic
          format={duration}
          series={[
            line("queue_p50_sec", texts.queueTime("p50"), "--running", [], duration),
            line("queue_p95_sec", texts.queueTime("p95"), "--running", [6, 3], duration),
            line("run_p50_sec", texts.runTime("p50"), "--waiting", [], duration),
            line("run_p95_sec", texts.runTime("p95"), "--waiting", [6, 3], duration),
          ]}
        />
      </div>
    </div>
  );
}
