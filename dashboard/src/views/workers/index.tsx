// The fleet: state, load, heartbeat, code and wheels of each worker.

import { useState } from "preact/hooks";
import { api } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { now } from "../../clock";
import { HideWorkerButton } from "../../components/actions";
import { CallMenu, type Calls } from "../../components/call-menu";
import { DataTable, type Column } from "../../components/data-table";
import { Dialog } from "../../components/dialog";
import { FilterCheck, Filters, FilterSelect, FilterText, filterValue, setFilter } from "../../components/filter-fields";
import { LongText, Name } from "../../components/name";
import { Empty, Loading, Notice, ProblemNotice } from "../../components/notice";
import { RunLink } from "../../components/run-link";
import { Status } from "../../components/status";
import { Time } from "../../components/time";
import { number, relative } from "../../format";
import { page } from "../../page";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { matches, wheelSync, workersQuery, type Worker, type WorkersQuery } from "./workers";
import "./workers.css";

// A large fleet is a large answer.
const EVERY_MS = 3000;
const EVERY_MS_OF_MANY = 15_000;
const MANY = 100;
const FIRST_RUNS = 3;
const FIRST_TAGS = 6;
const VERSION_CHARS = 12;
const START_WORKER = "pyoco-worker --nats-url nats://HOST:4222 --tags default";

export default function Workers() {
  const texts = t.value.workers;
  const query = workersQuery(filterValue("which"), filterValue("hidden") === "1");
  const [isMany, setMany] = useState(false);
  const { data, problem, isLoading, readAt, refresh } = useQuery(
    JSON.stringify(query),
    async (signal) => {
      const { data: workers = [], response } = await api.GET("/workers", { params: { query }, signal });
      setMany(workers.length > MANY);
      return { workers, total: Number(response.headers.get("x-total-count") ?? workers.length) };
    },
    { everyMs: isMany ? EVERY_MS_OF_MANY : EVERY_MS },
  );
  const shown = data?.workers.filter((worker) => matches(worker, filterValue("find"))) ?? [];
  const opened = filterValue("worker");
  const detailed = opened === "" ? undefined : data?.workers.find((worker) => worker.worker_id === opened);
  const columns: Column<Worker>[] = [
    { key: "worker", title: texts.worker, isHead: true, cell: (worker) => <WorkerName worker={worker} /> },
    { key: "state", title: texts.state, cell: (worker) => <Status status={worker.state} /> },
    { key: "slots", title: texts.slots, cell: (worker) => <Slots worker={worker} /> },
    { key: "runs", title: texts.runs, cell: (worker) => <CurrentRuns worker={worker} /> },
    { key: "tags", title: texts.tags, cell: (worker) => <Tags tags={worker.tags} /> },
    { key: "heartbeat", title: texts.heartbeat, cell: (worker) => <Heartbeat worker={worker} readAt={readAt} /> },
    { key: "code", title: texts.code, cell: (worker) => <Code worker={worker} /> },
    { key: "wheels", title: texts.wheels, cell: (worker) => <Wheels worker={worker} /> },
    ...(page.hasActions
      ? [{ key: "actions", title: texts.actions, cell: (worker: Worker) => <HideWorkerButton workerId={worker.worker_id} isHidden={worker.hidden} onDone={refresh} /> }]
      : []),
  ];
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.workers}</h1>
        {data && <span class="muted number">{texts.shown(number(shown.length), number(data.total))}</span>}
        <span class="spring" />
        <CallMenu calls={() => callsOf(query)} />
      </header>
      <Filters>
        <FilterText name="find" label={texts.search} placeholder={texts.searchHint} />
        <FilterSelect name="which" label={texts.scope} byDefault="active" options={Object.entries(texts.scopes)} />
        <FilterCheck name="hidden" label={texts.includeHidden} />
      </Filters>
      {problem && <ProblemNotice problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data && data.total > data.workers.length && (
        <Notice>
          <p>{texts.tooMany(number(data.workers.length), number(data.total))}</p>
        </Notice>
      )}
      {data && shown.length === 0 && <NoWorkers isFiltered={data.workers.length > 0 || filterValue("which") !== ""} />}
      {shown.length > 0 && <DataTable caption={texts.table} columns={columns} rows={shown} keyOf={(worker) => worker.worker_id} isMarked={(worker) => worker.hidden} />}
      {data && opened !== "" && !detailed && (
        <Notice>
          <p>
            {texts.unknown} <Name text={opened} />
          </p>
        </Notice>
      )}
      {detailed && (
        <Dialog title={t.value.shell.details} onClose={() => setFilter("worker", "")}>
          <WorkerFacts worker={detailed} readAt={readAt} />
        </Dialog>
      )}
    </>
  );
}

function NoWorkers({ isFiltered }: { isFiltered: boolean }) {
  const texts = t.value.workers;
  return isFiltered ? (
    <Empty title={texts.noneFound}>
      <p class="muted">{texts.noneFoundHint}</p>
    </Empty>
  ) : (
    <Empty title={texts.none}>
      <p class="muted">{texts.noneHint}</p>
      <code>{START_WORKER}</code>
    </Empty>
  );
}

function WorkerName({ worker }: { worker: Worker }) {
  return (
    <>
      <button type="button" class="link worker-name" aria-haspopup="dialog" onClick={() => setFilter("worker", worker.worker_id)}>
        <Name text={worker.worker_id} />
      </button>
      {worker.hidden && <span class="tag">{t.value.workers.hidden}</span>}
    </>
  );
}

function Slots({ worker }: { worker: Worker }) {
  const label = t.value.workers.slotsBusy(number(worker.slots_busy), number(worker.slots));
  return (
    <span class="slots" title={label}>
      <meter min={0} max={Math.max(1, worker.slots)} value={worker.slots_busy} aria-label={label} />
      <span class="number">
        {number(worker.slots_busy)}/{number(worker.slots)}
      </span>
    </span>
  );
}

function CurrentRuns({ worker }: { worker: Worker }) {
  const runs = worker.current_run_ids;
  if (runs.length === 0) return <span class="muted">–</span>;
  return (
    <span class="runs">
      {runs.slice(0, FIRST_RUNS).map((run) => (
        <RunLink key={run} id={run} />
      ))}
      {runs.length > FIRST_RUNS && <span class="muted">{t.value.workers.moreRuns(number(runs.length - FIRST_RUNS))}</span>}
    </span>
  );
}

function Tags({ tags, most = FIRST_TAGS }: { tags: readonly string[]; most?: number }) {
  return (
    <ul class="tag-list">
      {tags.slice(0, most).map((tag) => (
        <li key={tag} class="tag">
          <Name text={tag} most={40} />
        </li>
      ))}
      {tags.length > most && <li class="muted">+{number(tags.length - most)}</li>}
    </ul>
  );
}

/** By the gateway's clock, which goes on while the page waits for the next answer. */
function Heartbeat({ worker, readAt }: { worker: Worker; readAt: number }) {
  const silentSec = worker.silent_sec + Math.max(0, now.value - readAt / 1000);
  return <span class="number">{relative(-Math.max(1, Math.round(silentSec)), 0)}</span>;
}

function Code({ worker }: { worker: Worker }) {
  const texts = t.value.workers;
  const code = worker.code;
  if (!code) return <span class="muted">–</span>;
  return (
    <>
      <span class="mono">
        <Name text={code.version ?? "–"} most={VERSION_CHARS} />
      </span>
      {(code.changed || code.error) && (
        <span class="warned" title={code.error ?? texts.codeChanged}>
          <span aria-hidden="true">⚠</span>
          <span class="visually-hidden">{code.error ?? texts.codeChanged}</span>
        </span>
      )}
    </>
  );
}

function Wheels({ worker }: { worker: Worker }) {
  const texts = t.value.workers.sync;
  const sync = wheelSync(worker);
  if (sync.state === "off") return <span class="muted">{texts.off}</span>;
  if (sync.state === "ok") return <>{texts.ok(number(sync.installedCount))}</>;
  return (
    <span class="warned">
      <span aria-hidden="true">⚠</span> {sync.state === "failed" ? texts.failed : texts.partial(number(sync.installedCount), number(sync.failedCount))}
    </span>
  );
}

function WorkerFacts({ worker, readAt }: { worker: Worker; readAt: number }) {
  const texts = t.value.workers;
  const sync = wheelSync(worker);
  const wheels = [
    [texts.failed, sync.failed],
    [texts.skipped, sync.skipped],
  ] as const;
  return (
    <dl class="facts">
      <dt>{texts.worker}</dt>
      <dd>
        <Name text={worker.worker_id} most={200} />
      </dd>
      <dt>{texts.state}</dt>
      <dd>
        <Status status={worker.state} /> <Heartbeat worker={worker} readAt={readAt} />
      </dd>
      <dt>{texts.instance}</dt>
      <dd class="mono">
        <Name text={worker.instance_id} />
      </dd>
      <dt>{texts.started}</dt>
      <dd>
        <Time at={worker.started_at} />
      </dd>
      {worker.stopped_at !== null && (
        <>
          <dt>{texts.stopped}</dt>
          <dd>
            <Time at={worker.stopped_at} /> {worker.stop_reason && <Name text={worker.stop_reason} />}
          </dd>
        </>
      )}
      <dt>{texts.tags}</dt>
      <dd>
        <Tags tags={worker.tags} most={200} />
      </dd>
      <dt>{texts.runs}</dt>
      <dd>
        {worker.current_run_ids.length === 0 && <span class="muted">–</span>}
        <ul class="run-list">
          {worker.current_run_ids.map((run) => (
            <li key={run}>
              <a class="mono" href={hashOf(["runs", run])}>
                {run}
              </a>
            </li>
          ))}
        </ul>
      </dd>
      {worker.last_run_id && (
        <>
          <dt>{texts.lastRun}</dt>
          <dd>
            <a class="mono" href={hashOf(["runs", worker.last_run_id])}>
              {worker.last_run_id}
            </a>{" "}
            {worker.last_run_status && <Status status={worker.last_run_status} />}
          </dd>
        </>
      )}
      <dt>{texts.flows}</dt>
      <dd>
        <ul class="tag-list">
          {worker.flows.map((flow) => (
            <li key={flow} class="tag">
              <a href={hashOf(["flows", flow])}>
                <Name text={flow} />
              </a>
            </li>
          ))}
        </ul>
      </dd>
      {worker.code && (
        <>
          <dt>{texts.code}</dt>
          <dd>
            <span class="mono">
              <Name text={worker.code.version ?? "–"} />
            </span>{" "}
            {worker.code.reload && <span class="muted">{texts.codeReload}</span>}
            {worker.code.changed && <p>{texts.codeChanged}</p>}
            {worker.code.error && <LongText text={worker.code.error} />}
          </dd>
        </>
      )}
      <dt>{texts.isolation}</dt>
      <dd>{texts.isolations[worker.isolation]}</dd>
      {worker.runner_user && (
        <>
          <dt>{texts.runnerUser}</dt>
          <dd>
            <Name text={worker.runner_user} />
          </dd>
        </>
      )}
      <dt>{texts.wheels}</dt>
      <dd>
        <Wheels worker={worker} /> {sync.at !== null && <Time at={sync.at} />}
        {sync.error && <LongText text={sync.error} />}
      </dd>
      {sync.installed.length > 0 && (
        <>
          <dt>{texts.installed}</dt>
          <dd>
            <Tags tags={sync.installed} most={200} />
          </dd>
        </>
      )}
      {wheels.map(
        ([title, leftOut]) =>
          leftOut.length > 0 && (
            <>
              <dt>{title}</dt>
              <dd>
                {leftOut.map((wheel) => (
                  <div key={wheel.name}>
                    <Name text={wheel.name} /> <LongText text={wheel.reason} />
                  </div>
                ))}
              </dd>
            </>
          ),
      )}
    </dl>
  );
}

function callsOf(query: WorkersQuery): Calls {
  const given = Object.entries(query);
  const options = given.map(([name, value]) => (value === true ? `--${name.replace("_", "-")}` : `--${name} ${String(value).toLowerCase()}`));
  const python = given.map(([name, value]) => `${name}=${value === true ? "True" : JSON.stringify(value)}`);
  return {
    path: `/workers?${new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()}`,
    client: ["workers", ...options, "--output table"].join(" "),
    python: `for worker in client.list_workers(${python.join(", ")}):\n    print(worker["worker_id"], worker["state"])`,
  };
}
