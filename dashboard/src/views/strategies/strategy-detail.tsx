// One strategy: its health, its indicators over time, and its results with their files.

import { api, body, type Schemas } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CallMenu } from "../../components/call-menu";
import { DataTable, type Column } from "../../components/data-table";
import { Filters, FilterSelect, filterValue } from "../../components/filter-fields";
import { Name } from "../../components/name";
import { Empty, Loading } from "../../components/notice";
import { Time } from "../../components/time";
import { number, seconds } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { strategyCalls } from "./calls";
import { Artifacts, HealthMark, KPIS, kpiText, PdcaProblem, RequestLink, type Health, type KpiName } from "./parts";
import { Sparkline } from "./sparkline";

type Result = Schemas["ResultOut"];
type Detail = Schemas["StrategyDetail"];
const EVERY_MS = 10_000;
const MOST_RESULTS = 100;
const DAYS = [7, 30, 90, 366];
const FIRST_DAYS = 30;

export function StrategyDetail({ id }: { id: string }) {
  const texts = t.value.strategies;
  const days = DAYS.find((each) => String(each) === filterValue("days")) ?? FIRST_DAYS;
  const query = { summary_window_days: days, limit_history: MOST_RESULTS };
  const { data, problem, isLoading, refresh } = useQuery(
    `${id} ${days}`,
    (signal) => body(api.GET("/gui/strategies/{id}", { params: { path: { id }, query }, signal })),
    { everyMs: EVERY_MS },
  );
  return (
    <>
      <p>
        <a href={hashOf(["strategies"])}>← {texts.list}</a>
      </p>
      <header class="view-head">
        <h1>
          <Name text={data?.strategy.title ?? id} />
        </h1>
        {data && <HealthMark health={data.strategy.last_health as Health} />}
        <span class="spring" />
        <CallMenu calls={() => strategyCalls(id, days, MOST_RESULTS)} />
      </header>
      {problem && <PdcaProblem problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data && (
        <>
          <Facts strategy={data.strategy} />
          <Filters>
            <FilterSelect name="days" label={texts.days} byDefault={String(FIRST_DAYS)} options={DAYS.map((each) => [String(each), texts.dayCount(each)])} />
          </Filters>
          <div class="kpis">
            {KPIS.map((name) => (
              <Kpi key={name} name={name} detail={data} />
            ))}
          </div>
          <h2 class="part">{texts.results}</h2>
          <Results results={data.recent_results} />
        </>
      )}
    </>
  );
}

function Facts({ strategy }: { strategy: Detail["strategy"] }) {
  const texts = t.value.strategies;
  return (
    <dl class="facts strategy-facts">
      <dt>{texts.strategy}</dt>
      <dd class="mono">
        <Name text={strategy.id} />
      </dd>
      <dt>{texts.instrument}</dt>
      <dd>
        <Name text={strategy.instrument} />
      </dd>
      <dt>{texts.enabled}</dt>
      <dd>{strategy.enabled ? texts.on : texts.off}</dd>
      <dt>{texts.checked}</dt>
      <dd>
        <Time at={strategy.last_checked_at} />
      </dd>
      {strategy.tags.length > 0 && (
        <>
          <dt>{texts.tags}</dt>
          <dd>
            <ul class="tag-list">
              {strategy.tags.map((tag) => (
                <li key={tag} class="tag">
                  <Name text={tag} most={40} />
                </li>
              ))}
            </ul>
          </dd>
        </>
      )}
    </dl>
  );
}

function Kpi({ name, detail }: { name: KpiName; detail: Detail }) {
  const texts = t.value.strategies;
  const dots = detail.recent_results.flatMap((result) => {
    const [at, value] = [seconds(result.checked_at), result.kpi[name]];
    return at === null || typeof value !== "number" ? [] : [{ at, value }];
  });
  const newest = detail.recent_results[0]?.kpi[name];
  return (
    <section class="card kpi">
      <h2>{texts.kpis[name]}</h2>
      <p class="kpi-value number">
        {kpiText(newest)} <span class="muted small">{texts.average(kpiText(detail.summary.kpi_avg[name]))}</span>
      </p>
      <Sparkline name={texts.kpis[name]} dots={dots} />
    </section>
  );
}

function Results({ results }: { results: readonly Result[] }) {
  const texts = t.value.strategies;
  const columns: Column<Result>[] = [
    { key: "when", title: texts.when, isHead: true, cell: (result) => <Time at={result.checked_at} /> },
    { key: "health", title: texts.health, cell: (result) => <HealthMark health={result.health as Health} /> },
    ...KPIS.map((name) => ({ key: name, title: texts.kpis[name], isNumber: true, cell: (result: Result) => kpiText(result.kpi[name]) })),
    { key: "request", title: texts.request, cell: (result) => <RequestLink id={result.request_id} /> },
    { key: "files", title: texts.files, cell: (result) => result.artifacts.length > 0 && <Artifacts artifacts={result.artifacts} /> },
  ];
  if (results.length === 0) return <Empty title={texts.noResults} />;
  return (
    <>
      <DataTable caption={texts.results} columns={columns} rows={results} keyOf={(result) => `${result.request_id} ${result.checked_at}`} />
      {results.length === MOST_RESULTS && <p class="muted">{texts.resultsNewest(number(MOST_RESULTS))}</p>}
    </>
  );
}
