// The nodes that wait for an answer of a person or a program, the longest waiting first.

import { api, body, type Schemas } from "../../api/client";
import { usePages } from "../../api/use-pages";
import { useRefresh } from "../../api/use-refresh";
import { now } from "../../clock";
import { AnswerWaitButton } from "../../components/actions";
import { questionOf } from "../../components/actions/answer";
import { CallMenu, pythonText, quoted, type Calls } from "../../components/call-menu";
import { Filters, FilterText, filterValue } from "../../components/filter-fields";
import { LongText, Name } from "../../components/name";
import { Empty, Loading, Notice, ProblemNotice } from "../../components/notice";
import { Time } from "../../components/time";
import { number, seconds } from "../../format";
import { page } from "../../page";
import { hashOf } from "../../router";
import { t } from "../../texts";
import "./approvals.css";

type Wait = Schemas["WaitOut"];
// A prompt may have 16 KiB.
const PAGE = 20;
const EVERY_MS = 5000;
const FIRST_CHARS = 500;

export default function Approvals() {
  const texts = t.value.approvals;
  const graph = filterValue("graph");
  const waits = usePages(graph, async (cursor, signal) => {
    const query = { limit: PAGE, ...(graph && { graphId: graph }), ...(cursor && { cursor }) };
    const found = await body(api.GET("/waits", { params: { query }, signal }));
    return { items: found.items, next: found.nextCursor };
  });
  useRefresh(() => waits.isLoading || waits.refresh(), EVERY_MS, waits.items.length <= PAGE);
  const count = number(waits.items.length);
  return (
    <>
      <header class="view-head">
        <h1>{t.value.shell.pages.approvals}</h1>
        {waits.items.length > 0 && <span class="muted">{waits.hasMore ? texts.countOrMore(count) : texts.count(count)}</span>}
        <span class="spring" />
        <CallMenu calls={() => callsOf(graph)} />
      </header>
      <Filters>
        <FilterText name="graph" label={texts.graph} />
      </Filters>
      {waits.problem && <ProblemNotice problem={waits.problem} hasData={waits.items.length > 0} onRetry={waits.refresh} />}
      {!page.hasActions && waits.items.length > 0 && (
        <Notice>
          <p>{texts.readOnly}</p>
        </Notice>
      )}
      {waits.items.length > 0 && (
        <ul class="waits" aria-label={texts.list}>
          {waits.items.map((wait) => (
            <li key={`${wait.executionId} ${wait.nodeId} ${wait.attempt}`} class="card">
              <WaitCard wait={wait} onDone={waits.refresh} />
            </li>
          ))}
        </ul>
      )}
      {waits.items.length === 0 && (waits.isFirst ? <Loading /> : !waits.problem && <NoWaits />)}
      {waits.hasMore && (
        <p class="table-more">
          <button type="button" onClick={waits.loadMore}>
            {t.value.shell.showMore}
          </button>
        </p>
      )}
    </>
  );
}

function NoWaits() {
  return (
    <Empty title={t.value.approvals.none}>
      <p class="muted">{t.value.approvals.noneHint}</p>
    </Empty>
  );
}

function WaitCard({ wait, onDone }: { wait: Wait; onDone: () => void }) {
  const texts = t.value.approvals;
  const question = questionOf(wait.prompt);
  const deadline = seconds(wait.deadlineAt);
  return (
    <article>
      <header class="wait-head">
        <h2>
          <Name text={wait.nodeId} /> <span class="muted">·</span> <Name text={wait.graphId} />
        </h2>
        <span class="spring" />
        <AnswerWaitButton wait={wait} onDone={onDone} />
      </header>
      {question.text ? <LongText text={question.text} first={FIRST_CHARS} /> : question.rest === undefined && <p class="muted">{texts.noPrompt}</p>}
      {question.choices.length > 0 && (
        <p class="wait-choices">
          <span class="muted">{texts.choices}</span>
          {question.choices.map((choice) => (
            <span key={choice} class="tag">
              <Name text={choice} />
            </span>
          ))}
        </p>
      )}
      {question.rest !== undefined && (
        <details>
          <summary>{texts.more}</summary>
          <LongText text={JSON.stringify(question.rest, null, 2)} />
        </details>
      )}
      <dl class="facts wait-facts">
        <dt>{texts.since}</dt>
        <dd>
          <Time at={wait.waitingSince} />
        </dd>
        <dt>{texts.deadline}</dt>
        <dd>
          {deadline === null ? <span class="muted">{texts.noDeadline}</span> : <Time at={deadline} />}
          {deadline !== null && deadline < now.value && <span class="tag">{texts.overdue}</span>}
        </dd>
        {wait.workerId && (
          <>
            <dt>{texts.worker}</dt>
            <dd>
              <Name text={wait.workerId} />
            </dd>
          </>
        )}
        <dt>{texts.run}</dt>
        <dd>
          <a class="mono" href={hashOf(["runs", wait.executionId])}>
            {wait.executionId}
          </a>
        </dd>
      </dl>
    </article>
  );
}

function callsOf(graph: string): Calls {
  return {
    path: `/waits${graph && `?graphId=${encodeURIComponent(graph)}`}`,
    client: `waits ${graph && `--graph-id ${quoted(graph)} `}--output table`,
    python: `for wait in client.iter_waits(${graph && `graph_id=${pythonText(graph)}`}):\n    print(wait["executionId"], wait["nodeId"], wait["prompt"])`,
  };
}
