// The list of runs: filters in the address, a live table, two runs to compare.

import { useMemo, useState } from "preact/hooks";
import { CallMenu } from "../../components/call-menu";
import { Loading, ProblemNotice } from "../../components/notice";
import { number } from "../../format";
import { hashOf, place, setQuery } from "../../router";
import { t } from "../../texts";
import { ColumnChoice } from "./column-choice";
import { chosenColumns } from "./columns";
import { EmptyList } from "./empty-list";
import { FilterChips, TimeRange } from "./filter-chips";
import { FilterInput } from "./filter-input";
import { callsOf, chipsOf, filtersOf, queryOf, withText, without, type Filters } from "./filters";
import type { RunsModel } from "./runs-model";
import { RunsTable } from "./runs-table";
import { useRuns } from "./use-runs";
import "./runs.css";

// Rows that are looked through for names of flows and tags.
const SEEN_ROWS = 1000;

export default function View() {
  const texts = t.value.runs;
  const query = place.value.query.toString();
  const filters = useMemo(() => filtersOf(new URLSearchParams(query)), [query]);
  const change = (changed: Filters): void => setQuery(queryOf(changed), "push");
  const { model, revision } = useRuns(filters);
  const [columns, setColumns] = useState(chosenColumns);
  const [picked, setPicked] = useState<readonly string[]>([]);
  const pick = useMemo(() => (id: string) => setPicked((before) => (before.includes(id) ? before.filter((each) => each !== id) : [...before.slice(-1), id])), []);
  return (
    <div class="runs-view">
      <div class="view-head">
        <h1>{t.value.shell.pages.runs}</h1>
        <span class="muted" role="status">
          {countText(model)}
        </span>
        <span class="spring" />
        <ColumnChoice columns={columns} onChange={setColumns} />
        <CallMenu calls={() => callsOf(filters, Date.now() / 1000)} />
      </div>
      <div class="runs-tools">
        <FilterInput
          filters={filters}
          seen={() => namesIn(model)}
          onChoose={({ kind, value }) => change(withText(filters, kind, value))}
          onRemoveLast={() => {
            const last = chipsOf(filters).at(-1);
            if (last) change(without(filters, last));
          }}
        />
        <TimeRange filters={filters} onChange={change} />
      </div>
      <FilterChips filters={filters} onChange={change} />
      {model.problem && <ProblemNotice problem={model.problem} hasData={model.isStarted} onRetry={() => void model.poll()} />}
      {model.isEmpty && model.list.waiting.size === 0 ? (
        <EmptyList filters={filters} onChange={change} />
      ) : model.isStarted ? (
        <RunsTable key={query} model={model} revision={revision} columns={columns} picked={picked} onPick={pick} />
      ) : (
        model.problem === null && <Loading />
      )}
      {picked.length > 0 && (
        <div class="runs-compare" role="status">
          {picked.length === 2 ? <a href={hashOf(["compare"], { a: picked[0], b: picked[1] })}>{texts.compare}</a> : <span>{texts.picked}</span>}
          <button type="button" class="quiet" onClick={() => setPicked([])}>
            {texts.clearPicks}
          </button>
        </div>
      )}
    </div>
  );
}

function countText(model: RunsModel): string {
  const texts = t.value.runs;
  if (!model.isStarted) return "";
  const known = model.total ?? (model.hasMore ? null : model.list.order.length);
  if (known === 1) return texts.countOne;
  return known === null ? texts.countMore(number(model.list.order.length)) : texts.count(number(known));
}

function namesIn(model: RunsModel): { flows: string[]; tags: string[] } {
  const flows = new Set<string>();
  const tags = new Set<string>();
  for (const id of model.list.order.slice(0, SEEN_ROWS)) {
    const run = model.list.get(id);
    if (run?.flow_name) flows.add(run.flow_name);
    if (run?.tag) tags.add(run.tag);
  }
  return { flows: [...flows], tags: [...tags] };
}
