// The queue of each tag, and whether workers serve it.

import { DataTable, type Column } from "../../components/data-table";
import { Name } from "../../components/name";
import { Time } from "../../components/time";
import { number } from "../../format";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { isUnserved, type Queue } from "./overview";

export function Queues({ queues }: { queues: readonly Queue[] }) {
  const texts = t.value.overview;
  const columns: Column<Queue>[] = [
    { key: "tag", title: texts.tag, isHead: true, cell: ({ tag }) => <Name text={tag} most={64} /> },
    { key: "pending", title: texts.pending, isNumber: true, cell: (queue) => <Pending queue={queue} /> },
    { key: "oldest", title: texts.oldest, cell: ({ oldest_since }) => <Time at={oldest_since} /> },
    { key: "workers", title: texts.workers, isNumber: true, cell: (queue) => <Serving queue={queue} /> },
    { key: "slots", title: texts.freeSlots, isNumber: true, cell: ({ slots, slots_free }) => (!slots || slots_free === null ? "–" : texts.freeOf(number(slots_free), number(slots))) },
  ];
  return (
    <section class="overview-part">
      <h2>{texts.queues}</h2>
      {queues.length === 0 ? <p class="muted">{texts.noQueues}</p> : <DataTable caption={texts.queues} columns={columns} rows={queues} keyOf={({ tag }) => tag} />}
    </section>
  );
}

function Pending({ queue: { tag, pending } }: { queue: Queue }) {
  return pending === 0 ? <span class="muted">0</span> : <a href={hashOf(["runs"], { status: "PENDING", tag })}>{number(pending)}</a>;
}

function Serving({ queue }: { queue: Queue }) {
  const texts = t.value.overview;
  const { tag, workers } = queue;
  if (workers === null) return <>–</>;
  if (isUnserved(queue)) {
    return (
      <span class="unserved" title={texts.unservedHint(tag)}>
        <span aria-hidden="true">⚠ </span>
        {texts.unserved}
      </span>
    );
  }
  return workers === 0 ? <span class="muted">0</span> : <a href={hashOf(["workers"], { find: tag })}>{number(workers)}</a>;
}
