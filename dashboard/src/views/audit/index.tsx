// Who changed what, newest first, for administrators.

import { api, body, type Schemas } from "../../api/client";
import { usePages } from "../../api/use-pages";
import { CallMenu, pythonText, quoted, type Calls } from "../../components/call-menu";
import { DataTable, type Column } from "../../components/data-table";
import { Filters, FilterSelect, FilterText, FilterTime, filterValue, setFilter } from "../../components/filter-fields";
import { Name } from "../../components/name";
import { Empty, Loading, ProblemNotice } from "../../components/notice";
import { Time } from "../../components/time";
import { t } from "../../texts";
import { ACTIONS, auditFilters, factsOf, placeOf, type AuditFilters } from "./audit";
import "./audit.css";

type Item = Schemas["AuditItem"];
const PAGE = 100;

export default function Audit() {
  const texts = t.value.audit;
  const filters = auditFilters(filterValue);
  const records = usePages(JSON.stringify(filters), async (cursor, signal) => {
    const query = { limit: PAGE, ...filters, ...(cursor !== null && { cursor }) };
    const found = await body(api.GET("/audit", { params: { query: query as never }, signal }));
    return { items: found.items, next: found.next_cursor };
  });
  const isFiltered = Object.keys(filters).length > 0;
  const columns: Column<Item>[] = [
    { key: "when", title: texts.when, cell: (item) => <Time at={item.at} /> },
    { key: "who", title: texts.who, cell: (item) => <Actor item={item} /> },
    { key: "what", title: texts.what, isHead: true, cell: (item) => <What item={item} /> },
    { key: "on", title: texts.on, cell: (item) => <Resource item={item} /> },
    { key: "detail", title: texts.detail, cell: (item) => <Facts item={item} /> },
    { key: "from", title: texts.from, cell: (item) => item.address && <Name text={item.address} most={60} /> },
    { key: "request", title: texts.request, cell: (item) => item.request_id && <RequestId id={item.request_id} /> },
  ];
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.audit}</h1>
        <span class="spring" />
        <button type="button" onClick={records.refresh}>
          {t.value.shell.refresh}
        </button>
        <CallMenu calls={() => callsOf(filters)} />
      </header>
      <Filters>
        <FilterText name="actor" label={texts.actor} />
        <FilterSelect name="action" label={texts.action} options={[["", texts.anyAction], ...ACTIONS.map((action) => [action, action] as const)]} />
        <FilterText name="resource" label={texts.resource} />
        <FilterText name="request_id" label={texts.request} most={64} />
        <FilterTime name="since" label={texts.since} />
        <FilterTime name="until" label={texts.until} />
      </Filters>
      {records.problem && <ProblemNotice problem={records.problem} hasData={records.items.length > 0} onRetry={records.refresh} />}
      {records.items.length > 0 && <DataTable caption={texts.table} columns={columns} rows={records.items} keyOf={keyOf} />}
      {records.isFirst && <Loading />}
      {records.items.length === 0 && !records.isLoading && !records.problem && <Empty title={isFiltered ? texts.noneFound : texts.none} />}
      {records.hasMore && !records.isLoading && (
        <p class="table-more">
          <button type="button" onClick={records.loadMore}>
            {t.value.shell.loadMore}
          </button>
        </p>
      )}
    </>
  );
}

function keyOf(item: Item): string {
  return [item.at, item.action, item.resource.id, item.request_id, item.detail["node"]].join(" ");
}

function Actor({ item }: { item: Item }) {
  const texts = t.value.audit;
  return (
    <>
      {item.actor.id === null ? (
        <span class="muted">{texts.anonymous}</span>
      ) : (
        <button type="button" class="link" onClick={() => setFilter("actor", item.actor.id ?? "")}>
          <Name text={item.actor.id} most={60} />
        </button>
      )}
      {item.actor.kind !== "user" && (
        <span class="tag">
          <Name text={item.actor.kind === "operator" ? texts.operator : item.actor.kind} />
        </span>
      )}
    </>
  );
}

function What({ item }: { item: Item }) {
  const texts = t.value.audit;
  return (
    <>
      <Name text={item.action} />
      {item.outcome !== "made" && (
        <span class="audit-outcome" title={texts.attempted}>
          ⚠ <Name text={item.outcome} />
        </span>
      )}
    </>
  );
}

function Resource({ item }: { item: Item }) {
  const { kind, id } = item.resource;
  const to = placeOf(kind, id);
  return (
    <span class="audit-resource">
      <span class="muted small">
        <Name text={kind} />
      </span>{" "}
      {to === null ? (
        <Name text={id} />
      ) : (
        <a href={to} class={kind === "run" ? "mono" : undefined}>
          <Name text={id} />
        </a>
      )}
      {item.tenant_id && (
        <span class="muted small">
          {" "}
          {t.value.audit.tenant} <Name text={item.tenant_id} />
        </span>
      )}
    </span>
  );
}

function Facts({ item }: { item: Item }) {
  return (
    <>
      {factsOf(item.detail).map(([name, value]) => (
        <div key={name}>
          <span class="muted small">{name}</span> <Name text={value} most={80} />
        </div>
      ))}
    </>
  );
}

function RequestId({ id }: { id: string }) {
  return (
    <button type="button" class="link mono" title={id} onClick={() => setFilter("request_id", id)}>
      {`…${id.slice(-8)}`}
    </button>
  );
}

function callsOf(filters: AuditFilters): Calls {
  const entries = Object.entries(filters) as [string, string][];
  const options = entries.map(([name, value]) => `--${name.replace("_", "-")} ${quoted(value)}`);
  const python = entries.map(([name, value]) =>
    name === "since" || name === "until" ? `${name}=${Date.parse(value) / 1000}` : `${name}=${pythonText(value)}`,
  );
  return {
    path: `/audit?${new URLSearchParams([["limit", String(PAGE)], ...entries]).toString()}`,
    client: ["audit", ...options, `--limit ${PAGE} --output table`].join(" "),
    python: `page = client.list_audit(${[...python, `limit=${PAGE}`].join(", ")})\nfor record in page["items"]:\n    print(record["at"], record["actor"]["id"], record["action"], record["resource"]["id"])`,
  };
}
