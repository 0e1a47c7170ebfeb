// All strategies by page, with filters and sorting by the gateway.

import type { ComponentChildren } from "preact";
import { api, body, type Schemas } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CallMenu } from "../../components/call-menu";
import { DataTable, type Column } from "../../components/data-table";
import { Filters, FilterSelect, FilterText, filterValue, setFilter } from "../../components/filter-fields";
import { Name } from "../../components/name";
import { Empty, Loading } from "../../components/notice";
import { Time } from "../../components/time";
import { number } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { listCalls, type StrategyQuery } from "./calls";
import { HealthMark, PdcaProblem, type Health } from "./parts";

type Listed = Schemas["StrategyListed"];
const EVERY_MS = 10_000;
const PAGE_SIZE = 50;
const FIRST_SORT = "last_checked_at.desc";

function queryOf(): StrategyQuery {
  const enabled = filterValue("enabled");
  const texts = Object.fromEntries((["q", "tags_any", "health", "instrument"] as const).map((name) => [name, filterValue(name)]).filter(([, value]) => value !== ""));
  return {
    ...texts,
    ...((enabled === "on" || enabled === "off") && { enabled }),
    sort: filterValue("sort") || FIRST_SORT,
    page: Math.max(1, Math.trunc(Number(filterValue("page"))) || 1),
    page_size: PAGE_SIZE,
  };
}

export function StrategyList({ tabs }: { tabs: ComponentChildren }) {
  const texts = t.value.strategies;
  const query = queryOf();
  const { data, problem, isLoading, refresh } = useQuery(JSON.stringify(query), (signal) => body(api.GET("/gui/strategies", { params: { query }, signal })), { everyMs: EVERY_MS });
  const [sortField = "", direction] = query.sort.split(".");
  const isFiltered = Object.keys(query).length > 3;
  const columns: Column<Listed>[] = [
    {
      key: "id",
      title: texts.strategy,
      isHead: true,
      sortBy: "id",
      cell: (strategy) => (
        <>
          <a href={hashOf(["strategies", "strategy", strategy.id])}>
            <Name text={strategy.title} />
          </a>
          <div class="muted small mono">
            <Name text={strategy.id} />
          </div>
        </>
      ),
    },
    { key: "health", title: texts.health, sortBy: "health", cell: (strategy) => <HealthMark health={strategy.last_health as Health} /> },
    { key: "checked", title: texts.checked, sortBy: "last_checked_at", cell: (strategy) => <Time at={strategy.last_checked_at} /> },
    { key: "instrument", title: texts.instrument, sortBy: "instrument", cell: (strategy) => <Name text={strategy.instrument} /> },
    { key: "enabled", title: texts.enabled, cell: (strategy) => (strategy.enabled ? texts.on : <span class="muted">{texts.off}</span>) },
    {
      key: "tags",
      title: texts.tags,
      cell: (strategy) => (
        <ul class="tag-list">
          {strategy.tags.map((tag) => (
            <li key={tag} class="tag">
              <Name text={tag} most={40} />
            </li>
          ))}
        </ul>
      ),
    },
  ];
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.strategies}</h1>
        {tabs}
        <span class="spring" />
        <CallMenu calls={() => listCalls(query)} />
      </header>
      <Filters>
        <FilterText name="q" label={texts.search} most={64} placeholder={texts.searchHint} />
        <FilterSelect name="health" label={texts.health} options={[["", texts.anyHealth], ...Object.entries(texts.healths)]} />
        <FilterText name="instrument" label={texts.instrument} />
        <FilterText name="tags_any" label={texts.tag} />
        <FilterSelect name="enabled" label={texts.enabled} byDefault="all" options={Object.entries(texts.enabledOptions)} />
      </Filters>
      {problem && <PdcaProblem problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data?.total === 0 && <Empty title={isFiltered ? texts.noneFound : texts.none}>{!isFiltered && <p class="muted">{texts.noneHint}</p>}</Empty>}
      {data && data.items.length > 0 && (
        <DataTable
          caption={texts.table}
          columns={columns}
          rows={data.items}
          keyOf={(strategy) => strategy.id}
          isMarked={(strategy) => !strategy.enabled}
          sorting={{
            field: sortField,
            isDescending: direction === "desc",
            onSort: (field) => setFilter("sort", `${field}.${field === sortField && direction === "asc" ? "desc" : "asc"}`),
          }}
        />
      )}
      {data && data.total > 0 && <Pager page={query.page} total={data.total} count={data.items.length} />}
    </>
  );
}

function Pager({ page, total, count }: { page: number; total: number; count: number }) {
  const texts = t.value.strategies;
  const first = (page - 1) * PAGE_SIZE;
  const isLast = first + count >= total;
  return (
    <nav class="pager" aria-label={texts.list}>
      <button type="button" disabled={page <= 1} onClick={() => setFilter("page", page <= 2 ? "" : String(page - 1))}>
        {texts.previous}
      </button>
      <span class="number">{texts.range(number(count === 0 ? first : first + 1), number(first + count), number(total))}</span>
      <button type="button" disabled={isLast} onClick={() => setFilter("page", String(page + 1))}>
        {texts.next}
      </button>
    </nav>
  );
}
