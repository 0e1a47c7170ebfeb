// Requests for rechecks, newest first: the runs of the flow that every request has.

import type { ComponentChildren } from "preact";
import { api, body, type Schemas } from "../../api/client";
import { may } from "../../api/session";
import { usePages } from "../../api/use-pages";
import { useRefresh } from "../../api/use-refresh";
import { CallMenu } from "../../components/call-menu";
import { DataTable, type Column } from "../../components/data-table";
import { LongText } from "../../components/name";
import { Empty, Loading, ProblemNotice } from "../../components/notice";
import { Status } from "../../components/status";
import { Duration, Time } from "../../components/time";
import { hashOf, navigate } from "../../router";
import { t } from "../../texts";
import { isUlid, ulidOf } from "./ulid";

type Run = Schemas["RunSummary"];
const REQUEST_FLOW = "pdca.request";
const PAGE = 50;
const EVERY_MS = 5000;

export function RecheckList({ tabs }: { tabs: ComponentChildren }) {
  const texts = t.value.strategies;
  const isListed = may("runs:read");
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.strategies}</h1>
        {tabs}
        <span class="spring" />
        <CallMenu
          calls={() => ({
            path: `/runs?flow=${REQUEST_FLOW}&cursor=&limit=${PAGE}`,
            client: `list --flow ${REQUEST_FLOW} --limit ${PAGE} --output table`,
            python: `for run in client.iter_runs(flow="${REQUEST_FLOW}"):\n    print(run["run_id"], run["status"])`,
          })}
        />
      </header>
      {isListed ? (
        <Requests />
      ) : (
        <Empty title={texts.needsRunsRead}>
          <OpenById />
        </Empty>
      )}
    </>
  );
}

function OpenById() {
  const texts = t.value.strategies;
  return (
    <form
      class="filters"
      method="dialog"
      onSubmit={(event) => {
        event.preventDefault();
        const field = event.currentTarget.elements.namedItem("id");
        const id = field instanceof HTMLInputElement ? field.value.trim().toUpperCase() : "";
        if (isUlid(id)) navigate(hashOf(["strategies", "recheck", id]));
      }}
    >
      <label>
        {texts.requestId}
        <input type="text" name="id" required minLength={26} maxLength={26} spellcheck={false} />
      </label>
      <button type="submit">{texts.open}</button>
    </form>
  );
}

function Requests() {
  const texts = t.value.strategies;
  const requests = usePages("", async (cursor, signal) => {
    const query = { flow: REQUEST_FLOW, limit: PAGE, cursor: cursor ?? "" };
    const found = (await body(api.GET("/runs", { params: { query }, signal }))) as Schemas["RunListResponse"];
    return { items: found.items as Run[], next: found.next_cursor ?? null };
  });
  useRefresh(() => requests.isLoading || requests.refresh(), EVERY_MS, requests.items.length <= PAGE);
  const columns: Column<Run>[] = [
    { key: "request", title: texts.request, isHead: true, cell: (run) => <Request runId={run.run_id} /> },
    { key: "status", title: texts.status, cell: (run) => <Status status={run.status} /> },
    { key: "submitted", title: texts.submitted, cell: (run) => <Time at={run.submitted_at} /> },
    { key: "update", title: texts.lastUpdate, cell: (run) => <Time at={run.updated_at} /> },
    { key: "duration", title: t.value.strategies.duration, isNumber: true, cell: (run) => <Duration from={run.submitted_at} to={run.end_time} isRunning={!run.end_time} /> },
    { key: "error", title: t.value.strategies.error, cell: (run) => run.error && <LongText text={run.error} first={200} /> },
  ];
  return (
    <>
      {requests.problem && <ProblemNotice problem={requests.problem} hasData={requests.items.length > 0} onRetry={requests.refresh} />}
      {requests.isFirst && <Loading />}
      {!requests.isFirst && requests.items.length === 0 && !requests.problem && (
        <Empty title={texts.noRechecks}>
          <p class="muted">{texts.noRechecksHint}</p>
        </Empty>
      )}
      {requests.items.length > 0 && <DataTable caption={texts.rechecksTable} columns={columns} rows={requests.items} keyOf={(run) => run.run_id} />}
      {requests.hasMore && (
        <p class="table-more">
          <button type="button" onClick={requests.loadMore}>
            {t.value.shell.loadMore}
          </button>
        </p>
      )}
    </>
  );
}

function Request({ runId }: { runId: string }) {
  const id = ulidOf(runId);
  return (
    <a class="mono" href={id === null ? hashOf(["runs", runId]) : hashOf(["strategies", "recheck", id])}>
      {id ?? runId}
    </a>
  );
}
