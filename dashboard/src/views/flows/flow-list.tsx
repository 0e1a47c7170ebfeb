// All flows with figures about their last runs.

import { useState } from "preact/hooks";
import { api, body } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CallMenu, pythonText, quoted } from "../../components/call-menu";
import { DataTable, type Column } from "../../components/data-table";
import { Filters, FilterText, filterValue } from "../../components/filter-fields";
import { Name } from "../../components/name";
import { Empty, Loading, ProblemNotice } from "../../components/notice";
import { Time } from "../../components/time";
import { duration, number, percent } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { flowsQuery, recentShare, type Flow, type FlowsQuery } from "./flows";
import { LastRuns } from "./last-runs";

const EVERY_MS = 10_000;
const PAGE = 100;

export function FlowList() {
  const texts = t.value.flows;
  const query = flowsQuery(filterValue("q"), filterValue("tag"));
  const [pages, setPages] = useState(1);
  const { data, problem, isLoading, refresh } = useQuery(JSON.stringify(query), (signal) => readFlows(query, pages, signal), { everyMs: EVERY_MS });
  const columns: Column<Flow>[] = [
    { key: "name", title: texts.flow, isHead: true, cell: (flow) => <FlowLink name={flow.name} /> },
    { key: "last", title: texts.lastRuns, cell: (flow) => <LastRuns runs={flow.recent.last} /> },
    { key: "success", title: texts.success, isNumber: true, cell: (flow) => <Success flow={flow} /> },
    { key: "median", title: texts.median, isNumber: true, cell: ({ recent }) => seconds(recent.median_sec) },
    { key: "p95", title: texts.p95, isNumber: true, cell: ({ recent }) => seconds(recent.p95_sec) },
    { key: "submitted", title: texts.lastSubmitted, cell: ({ recent }) => <Time at={recent.last_submitted_at} /> },
    { key: "tags", title: texts.tags, cell: (flow) => <Tags tags={flow.tags} /> },
    { key: "workers", title: texts.workers, isNumber: true, cell: (flow) => number(flow.workers) },
  ];
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.flows}</h1>
        <span class="spring" />
        <CallMenu calls={() => callsOf(query)} />
      </header>
      <Filters>
        <FilterText name="q" label={texts.prefix} />
        <FilterText name="tag" label={texts.tag} most={64} />
      </Filters>
      {problem && <ProblemNotice problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data && data.flows.length === 0 && <NoFlows isFiltered={query.q !== undefined || query.tag !== undefined} />}
      {data && data.flows.length > 0 && <DataTable caption={texts.table} columns={columns} rows={data.flows} keyOf={({ name }) => name} />}
      {data?.hasMore && (
        <p class="table-more">
          <button
            type="button"
            onClick={() => {
              setPages(pages + 1);
              refresh();
            }}
          >
            {t.value.shell.showMore}
          </button>
        </p>
      )}
    </>
  );
}

/** The first pages; each has at most a hundred flows. */
async function readFlows(query: FlowsQuery, pages: number, signal: AbortSignal): Promise<{ flows: Flow[]; hasMore: boolean }> {
  const flows: Flow[] = [];
  let cursor: string | null = "";
  for (let page = 0; page < pages && cursor !== null; page += 1) {
    const answer: { items: Flow[]; next_cursor: string | null } = await body(api.GET("/flows", { params: { query: { ...query, limit: PAGE, cursor } }, signal }));
    flows.push(...answer.items);
    cursor = answer.next_cursor;
  }
  return { flows, hasMore: cursor !== null };
}

function FlowLink({ name }: { name: string }) {
  return (
    <a class="flow-link" href={hashOf(["flows", name])}>
      <Name text={name} most={80} />
    </a>
  );
}

function Success({ flow }: { flow: Flow }) {
  const share = recentShare(flow.recent);
  if (share === null) return <span class="muted">–</span>;
  return <span title={t.value.flows.ofLast(number(flow.recent.runs))}>{percent(share)}</span>;
}

export function seconds(value: number | null): string {
  return value === null ? "–" : duration(value);
}

export function Tags({ tags }: { tags: readonly string[] }) {
  return (
    <ul class="tag-list">
      {tags.map((tag) => (
        <li key={tag} class="tag">
          <Name text={tag} most={40} />
        </li>
      ))}
    </ul>
  );
}

function NoFlows({ isFiltered }: { isFiltered: boolean }) {
  const texts = t.value.flows;
  return (
    <Empty title={isFiltered ? texts.noneFound : texts.none}>
      <p class="muted">{isFiltered ? texts.noneFoundHint : texts.noneHint}</p>
    </Empty>
  );
}

function callsOf({ q, tag }: FlowsQuery) {
  const params = new URLSearchParams({ ...(q && { q }), ...(tag && { tag }) }).toString();
  const options = [...(q ? [`--q ${quoted(q)}`] : []), ...(tag ? [`--tag ${quoted(tag)}`] : [])];
  const named = [...(q ? [`q=${pythonText(q)}`] : []), ...(tag ? [`tag=${pythonText(tag)}`] : [])];
  return {
    path: `/flows${params && `?${params}`}`,
    client: ["flows", ...options].join(" "),
    python: `for flow in client.iter_flows(${named.join(", ")}):\n    print(flow["name"], flow["recent"]["statuses"])`,
  };
}
