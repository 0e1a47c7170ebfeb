// The workers by state, and how busy they are.

import { Status } from "../../components/status";
import { number } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { WORKER_STATES, type WorkerCounts } from "./overview";

export function Workers({ workers }: { workers: WorkerCounts }) {
  const texts = t.value.overview;
  const busy = texts.slotsBusy(number(workers.slots_busy), number(workers.slots));
  return (
    <section class="overview-part">
      <h2>{t.value.shell.pages.workers}</h2>
      <div class="card">
        <ul class="worker-states">
          {WORKER_STATES.map((state) => (
            <li key={state}>
              <a href={hashOf(["workers"], { which: state })}>
                <Status status={state} />
                <span class="number">{number(workers[state])}</span>
              </a>
            </li>
          ))}
        </ul>
        <p class="slots-busy">
          <meter min={0} max={Math.max(1, workers.slots)} value={workers.slots_busy} aria-label={busy} />
          <span aria-hidden="true">{busy}</span>
        </p>
      </div>
    </section>
  );
}
