// Jobs that failed or could not be processed: why, what to do, and which run.

import { useState } from "preact/hooks";
import { api, body, type Schemas } from "../../api/client";
import { usePages } from "../../api/use-pages";
import { ReplayButton } from "../../components/actions";
import { CallMenu, pythonText, quoted, type Calls } from "../../components/call-menu";
import { DataTable, type Column } from "../../components/data-table";
import { Filters, FilterSelect, FilterText, filterValue } from "../../components/filter-fields";
import { LongText, Name } from "../../components/name";
import { Empty, Loading, ProblemNotice } from "../../components/notice";
import { RunLink } from "../../components/run-link";
import { Time } from "../../components/time";
import { number } from "../../format";
import { page } from "../../page";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { ERROR_CHARS, knownReason, nextFilled, REASONS } from "./letters";
import "./dead-letters.css";

type Letter = Schemas["DeadLetterOut"];
const PAGE = 50;

interface Given {
  reason?: string;
  tag?: string;
  flow?: string;
}

function given(): Given {
  const names = ["reason", "tag", "flow"] as const;
  return Object.fromEntries(names.map((name) => [name, filterValue(name)]).filter(([, value]) => value !== ""));
}

export default function DeadLetters() {
  const texts = t.value.deadLetters;
  const filters = given();
  const letters = usePages(JSON.stringify(filters), (cursor, signal) =>
    nextFilled(async (from) => {
      const query = { limit: PAGE, error_chars: ERROR_CHARS + 1, ...filters, ...(from !== null && { cursor: from }) };
      const found = await body(api.GET("/dlq", { params: { query }, signal }));
      return { items: found.items, next: found.next_cursor };
    }, cursor),
  );
  const isFiltered = Object.keys(filters).length > 0;
  const columns: Column<Letter>[] = [
    { key: "number", title: texts.number, isHead: true, isNumber: true, cell: (letter) => letter.seq },
    { key: "when", title: texts.when, cell: (letter) => <Time at={letter.timestamp} /> },
    { key: "reason", title: texts.reason, isShort: true, cell: (letter) => <Reason reason={letter.reason} /> },
    { key: "flow", title: texts.flow, cell: (letter) => <Name text={letter.flow_name ?? "–"} /> },
    { key: "tag", title: texts.tag, cell: (letter) => letter.tag && <Name text={letter.tag} most={40} /> },
    { key: "error", title: texts.error, cell: (letter) => <ErrorText letter={letter} /> },
    { key: "run", title: texts.run, cell: (letter) => <Run letter={letter} /> },
    { key: "worker", title: texts.worker, cell: (letter) => letter.worker_id && <a href={hashOf(["workers"], { which: "all", worker: letter.worker_id })}><Name text={letter.worker_id} most={60} /></a> },
    { key: "deliveries", title: texts.deliveries, isNumber: true, cell: (letter) => (letter.num_delivered === null ? "–" : number(letter.num_delivered)) },
    ...(page.hasActions ? [{ key: "actions", title: texts.actions, cell: (letter: Letter) => letter.run_id && letter.reason !== "invalid_job" && <ReplayButton letter={letter} /> }] : []),
  ];
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.deadLetters}</h1>
        <span class="spring" />
        <button type="button" onClick={letters.refresh}>
          {t.value.shell.refresh}
        </button>
        <CallMenu calls={() => callsOf(filters)} />
      </header>
      <Filters>
        <FilterSelect name="reason" label={texts.reason} options={[["", texts.anyReason], ...REASONS.map((reason) => [reason, texts.reasons[reason].name] as const)]} />
        <FilterText name="tag" label={texts.tag} most={128} />
        <FilterText name="flow" label={texts.flow} />
      </Filters>
      {letters.problem && <ProblemNotice problem={letters.problem} hasData={letters.items.length > 0} onRetry={letters.refresh} />}
      {letters.items.length > 0 && <Legend letters={letters.items} />}
      {letters.items.length > 0 && <DataTable caption={texts.table} columns={columns} rows={letters.items} keyOf={(letter) => letter.seq} />}
      {letters.isLoading && (letters.items.length === 0 ? <Loading /> : <p class="muted" role="status">{texts.searching}</p>)}
      {letters.items.length === 0 && !letters.isLoading && !letters.problem && (
        <Empty title={isFiltered ? texts.noneFound : texts.none}>{!isFiltered && <p class="muted">{texts.noneHint}</p>}</Empty>
      )}
      {letters.hasMore && !letters.isLoading && (
        <p class="table-more">
          <button type="button" onClick={letters.loadMore}>
            {t.value.shell.loadMore}
          </button>
        </p>
      )}
    </>
  );
}

function Reason({ reason }: { reason: string }) {
  const known = knownReason(reason);
  const texts = t.value.deadLetters.reasons[known];
  return <span title={`${texts.meaning}\n${texts.remedy}`}>{known === "other" ? <Name text={reason} most={40} /> : texts.name}</span>;
}

/** What the reasons in sight mean and what to do. */
function Legend({ letters }: { letters: readonly Letter[] }) {
  const present = [...new Set(letters.map((letter) => knownReason(letter.reason)))];
  return (
    <dl class="reasons">
      {present.map((reason) => {
        const texts = t.value.deadLetters.reasons[reason];
        return (
          <div key={reason}>
            <dt>{texts.name}</dt>
            <dd>
              {texts.meaning} <strong>{texts.remedy}</strong>
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

function ErrorText({ letter }: { letter: Letter }) {
  const [whole, setWhole] = useState<string | null>(null);
  const error = whole ?? letter.error;
  if (!error) return null;
  const isCut = whole === null && error.length > ERROR_CHARS;
  const readWhole = async (): Promise<void> => {
    // The list has its beginning only. Pages go backwards from their cursor.
    const found = await body(api.GET("/dlq", { params: { query: { limit: 1, cursor: String(letter.seq + 1) } } }));
    setWhole(found.items.find((each) => each.seq === letter.seq)?.error ?? error);
  };
  return (
    <div class="letter-error">
      <LongText text={isCut ? `${error.slice(0, ERROR_CHARS)}…` : error} />
      {isCut && (
        <button type="button" class="link" onClick={() => void readWhole().catch(() => undefined)}>
          {t.value.deadLetters.wholeError}
        </button>
      )}
    </div>
  );
}

function Run({ letter }: { letter: Letter }) {
  if (!letter.run_id) return <span class="muted">{t.value.deadLetters.noRun}</span>;
  return <RunLink id={letter.run_id} />;
}

function callsOf(filters: Given): Calls {
  const entries = Object.entries(filters) as [string, string][];
  return {
    path: `/dlq?${new URLSearchParams([["limit", String(PAGE)], ...entries]).toString()}`,
    client: ["dlq", ...entries.map(([name, value]) => `--${name} ${quoted(value)}`), `--limit ${PAGE} --output table`].join(" "),
    python: `page = client.list_dead_letters(${[...entries.map(([name, value]) => `${name}=${pythonText(value)}`), `limit=${PAGE}`].join(", ")})\nfor letter in page["items"]:\n    print(letter["seq"], letter["reason"], letter["run_id"])`,
  };
}
