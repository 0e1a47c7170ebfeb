// The packages that workers install, and who changed them.

import { api, body, type Schemas } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CallMenu, pythonText, quoted } from "../../components/call-menu";
import { CopyButton } from "../../components/copy";
import { DataTable, type Column } from "../../components/data-table";
import { Filters, FilterSelect, FilterText, filterValue } from "../../components/filter-fields";
import { Name } from "../../components/name";
import { Empty, Loading, ProblemNotice } from "../../components/notice";
import { Time } from "../../components/time";
import { bytes, number } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";

type Wheel = Schemas["WheelArtifact"];
type Change = Schemas["WheelHistoryEvent"];

const EVERY_MS = 15_000;
const MOST_CHANGES = 500;
const DIGEST_CHARS = 12;
const UPLOAD = "pyoco-client wheel-upload dist/demo-1.0-py3-none-any.whl";

export default function Wheels() {
  const texts = t.value.wheels;
  const isHistory = filterValue("show") === "history";
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.wheels}</h1>
        <nav class="tabs" aria-label={texts.tabs}>
          <a href={hashOf(["wheels"])} aria-current={isHistory ? undefined : "page"}>
            {texts.registered}
          </a>
          <a href={hashOf(["wheels"], { show: "history" })} aria-current={isHistory ? "page" : undefined}>
            {texts.history}
          </a>
        </nav>
        <span class="spring" />
        <CallMenu calls={() => (isHistory ? historyCalls() : { path: "/wheels", client: "wheels --output table", python: "for wheel in client.list_wheels():\n    print(wheel[\"name\"])" })} />
      </header>
      {isHistory ? <History /> : <Registered />}
    </>
  );
}

function Owner({ tenant }: { tenant: string | null | undefined }) {
  return tenant ? <Name text={tenant} /> : <span class="muted">{t.value.wheels.shared}</span>;
}

function Tags({ tags }: { tags: readonly string[] }) {
  if (tags.length === 0) return <span class="muted">{t.value.wheels.everyWorker}</span>;
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

function Digest({ hex }: { hex: string | null }) {
  if (hex === null) return <span class="muted">{t.value.wheels.noDigest}</span>;
  return (
    <>
      <span class="mono" title={hex}>
        {hex.slice(0, DIGEST_CHARS)}…
      </span>
      <CopyButton text={hex} />
    </>
  );
}

function Registered() {
  const texts = t.value.wheels;
  const { data, problem, isLoading, refresh } = useQuery("wheels", (signal) => body(api.GET("/wheels", { signal })), { everyMs: EVERY_MS });
  const wanted = filterValue("find").toLowerCase();
  const found = data?.filter((wheel) => wheel.name.toLowerCase().includes(wanted) || (wheel.tenant_id ?? "").toLowerCase().includes(wanted)) ?? [];
  const columns: Column<Wheel>[] = [
    { key: "name", title: texts.name, isHead: true, cell: (wheel) => <Name text={wheel.name} /> },
    { key: "owner", title: texts.owner, cell: (wheel) => <Owner tenant={wheel.tenant_id} /> },
    { key: "tags", title: texts.tags, cell: (wheel) => <Tags tags={wheel.tags} /> },
    { key: "size", title: texts.size, isNumber: true, cell: (wheel) => bytes(wheel.size_bytes) },
    { key: "uploaded", title: texts.uploaded, cell: (wheel) => <Time at={wheel.modified} /> },
    { key: "sha256", title: texts.sha256, cell: (wheel) => <Digest hex={wheel.sha256_hex} /> },
  ];
  return (
    <>
      <Filters>
        <FilterText name="find" label={texts.search} />
        {data && data.length > 0 && <p class="muted">{texts.total(number(data.length), bytes(data.reduce((sum, wheel) => sum + wheel.size_bytes, 0)))}</p>}
      </Filters>
      {problem && <ProblemNotice problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data?.length === 0 && (
        <Empty title={texts.none}>
          <p class="muted">{texts.noneHint}</p>
          <code>{UPLOAD}</code>
        </Empty>
      )}
      {data && data.length > 0 && found.length === 0 && <Empty title={texts.noneFound} />}
      {found.length > 0 && <DataTable caption={texts.table} columns={columns} rows={found} keyOf={(wheel) => wheel.nuid} />}
    </>
  );
}

/** The query of the API for the filters of the page. */
function historyQuery(): { limit: number; wheel_name?: string; action?: "upload" | "delete" } {
  const [wheel, action] = [filterValue("wheel"), filterValue("action")];
  return { limit: MOST_CHANGES, ...(wheel.endsWith(".whl") && { wheel_name: wheel }), ...((action === "upload" || action === "delete") && { action }) };
}

function History() {
  const texts = t.value.wheels;
  const query = historyQuery();
  const { data, problem, isLoading, refresh } = useQuery(JSON.stringify(query), (signal) => body(api.GET("/wheels/history", { params: { query }, signal })));
  const columns: Column<Change>[] = [
    { key: "time", title: texts.time, cell: (change) => <Time at={change.occurred_at} /> },
    { key: "action", title: texts.action, cell: (change) => texts.actions[change.action] },
    {
      key: "name",
      title: texts.name,
      isHead: true,
      cell: (change) => (
        <a href={hashOf(["wheels"], { show: "history", wheel: change.wheel_name })}>
          <Name text={change.wheel_name} />
        </a>
      ),
    },
    { key: "owner", title: texts.owner, cell: (change) => <Owner tenant={change.tenant_id} /> },
    { key: "tags", title: texts.tags, cell: (change) => <Tags tags={change.tags} /> },
    { key: "actor", title: texts.actor, cell: (change) => <Name text={textOf(change.actor["api_key_id"]) || textOf(change.actor["sub"]) || texts.anonymous} /> },
    { key: "address", title: texts.address, cell: (change) => <Name text={textOf(change.source["client"]) || "–"} /> },
  ];
  return (
    <>
      <Filters>
        <FilterText name="wheel" label={texts.name} />
        <FilterSelect
          name="action"
          label={texts.action}
          options={[
            ["", texts.anyAction],
            ["upload", texts.actions.upload],
            ["delete", texts.actions.delete],
          ]}
        />
      </Filters>
      {problem && <ProblemNotice problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data?.length === 0 && <Empty title={texts.noHistory} />}
      {data && data.length > 0 && <DataTable caption={texts.historyTable} columns={columns} rows={data} keyOf={(change) => change.event_id} />}
      {data?.length === MOST_CHANGES && <p class="muted">{texts.mostShown(number(MOST_CHANGES))}</p>}
    </>
  );
}

function historyCalls() {
  const { limit, wheel_name: wheel, action } = historyQuery();
  const params = new URLSearchParams({ limit: String(limit), ...(wheel && { wheel_name: wheel }), ...(action && { action }) });
  return {
    path: `/wheels/history?${params.toString()}`,
    client: `wheel-history --limit ${limit} ${wheel ? `--wheel-name ${quoted(wheel)} ` : ""}${action ? `--action ${action} ` : ""}--output table`,
    python: `for change in client.list_wheel_history(limit=${limit}${wheel ? `, wheel_name=${pythonText(wheel)}` : ""}${action ? `, action="${action}"` : ""}):\n    print(change["wheel_name"], change["action"])`,
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
