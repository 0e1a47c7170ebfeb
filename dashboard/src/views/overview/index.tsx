// The present at a glance: runs, queues, workers, what waits for people, and the health of the gateway.

import { api, body } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { CallMenu } from "../../components/call-menu";
import { Loading, ProblemNotice } from "../../components/notice";
import { RunCharts } from "../../components/run-charts";
import { Status } from "../../components/status";
import { number } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { FirstRun } from "./first-run";
import { Health } from "./health";
import { isFresh, TILES, type Overview } from "./overview";
import { Queues } from "./queues";
import { Workers } from "./workers";
import "./overview.css";

const EVERY_MS = 3000;

export default function OverviewPage() {
  const { data, problem, isLoading, refresh } = useQuery("overview", async (signal) => await body(api.GET("/overview", { signal })), { everyMs: EVERY_MS });
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.overview}</h1>
        {data && <Health overview={data} />}
        <span class="spring" />
        <CallMenu calls={() => ({ path: "/overview", client: "overview", python: 'overview = client.get_overview()\nprint(overview["runs"], overview["queues"])' })} />
      </header>
      {problem && <ProblemNotice problem={problem} hasData={data !== undefined} onRetry={refresh} />}
      {isLoading && <Loading />}
      {data && (
        <div class="overview">
          <Tiles overview={data} />
          {isFresh(data) ? <FirstRun hasWorkers={hasActiveWorkers(data)} /> : <RunCharts />}
          <div class="overview-pair">
            <Queues queues={data.queues} />
            {data.workers && <Workers workers={data.workers} />}
          </div>
        </div>
      )}
    </>
  );
}

function hasActiveWorkers({ workers }: Overview): boolean {
  return workers === null || workers.RUNNING + workers.IDLE > 0;
}

function Tiles({ overview }: { overview: Overview }) {
  const texts = t.value.overview;
  return (
    <ul class="tiles" aria-label={texts.tiles}>
      {TILES.map((status) => (
        <Tile key={status} count={overview.runs[status]} href={hashOf(["runs"], { status })}>
          <Status status={status} />
        </Tile>
      ))}
      <Tile count={overview.waits} href={hashOf(["approvals"])} isUrgent={overview.waits > 0}>
        <span class="tile-name">{t.value.shell.pages.approvals}</span>
      </Tile>
      {overview.dead_letters !== null && (
        <Tile count={overview.dead_letters} href={hashOf(["dead-letters"])} isUrgent={overview.dead_letters > 0}>
          <span class="tile-name">{t.value.shell.pages.deadLetters}</span>
        </Tile>
      )}
    </ul>
  );
}

function Tile({ count, href, isUrgent = false, children }: { count: number; href: string; isUrgent?: boolean; children: preact.ComponentChildren }) {
  return (
    <li>
      <a class={`tile${isUrgent ? " tile-urgent" : ""}`} href={href}>
        <span class="tile-count number">{number(count)}</span>
        {children}
      </a>
    </li>
  );
}
