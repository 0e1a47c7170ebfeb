// The log of a run: any number of lines, searched and filtered by the gateway, followed while it grows.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { fetchApi } from "../../api/client";
import { asProblem, isAbort, type Problem } from "../../api/problem";
import { bytes as bytesText, number as numberText } from "../../format";
import { hashOf, place, setQuery } from "../../router";
import { preferences, store, stored } from "../../storage";
import { t } from "../../texts";
import { CallMenu, pythonText, quoted, type Calls } from "../call-menu";
import { Empty, Loading, ProblemNotice } from "../notice";
import { useShortcuts } from "../shortcuts";
import { matchFrom } from "./finder";
import { LineLoader, lowerBound, numberAt, rowCount, rowOf, type Rows } from "./lines";
import "./log.css";
import { readLines } from "./read-lines";
import { Row, type Times } from "./row";
import { ROW_HEIGHT, Scroller, type ScrollerHandle } from "./scroller";
import { timeText } from "./times";
import { Toolbar } from "./toolbar";
import { useLog } from "./use-log";
import { filterQuery, useMatches, type Wanted } from "./use-matches";

export interface LogProps {
  readonly runId: string;
  readonly finished: boolean;
  readonly tasks: readonly string[];
}

const WRAP = "pyoco.log.wrap";
const TIMES = "pyoco.log.times";
const TYPING_MS = 250;
/** Pixels below the log. */
const MARGIN = 16;

/** Changes the log's own part of the address. */
function setOwn(values: Partial<Record<"line" | "q" | "task" | "level", string>>): void {
  const query = new URLSearchParams(place.peek().query);
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  setQuery(query);
}

/** Another run begins anew. */
export default function LogPanel(props: LogProps) {
  return <Panel key={props.runId} {...props} />;
}

function Panel({ runId, finished, tasks }: LogProps) {
  const texts = t.value.log;
  const { path, query } = place.value;
  const wanted: Wanted = { q: (query.get("q") ?? "").slice(0, 200), task: query.get("task") ?? "", level: query.get("level") ?? "" };
  const line = Math.max(0, Math.trunc(Number(query.get("line")) || 0));
  const isFiltered = wanted.task !== "" || wanted.level !== "";

  const log = useLog(runId);
  const filter = useMatches(runId, { ...wanted, q: "" }, isFiltered, log.lines);
  const search = useMatches(runId, wanted, wanted.q !== "", log.lines);
  const total = log.lines ?? 0;
  const rows: Rows = useMemo(() => (isFiltered ? { numbers: filter.numbers } : { total }), [isFiltered, filter.numbers, total]);

  const [isWrapping, setWrapping] = useState(() => stored(preferences, WRAP) !== "0");
  const [times, setTimes] = useState<Times>(() => (stored(preferences, TIMES) ?? "none") as Times);
  const [isFollowing, setFollowing] = useState(line === 0);
  const [seen, setSeen] = useState(0);
  const [, draw] = useState({});
  const [problem, setProblem] = useState<Problem | null>(null);
  const scroller = useRef<ScrollerHandle>(null);
  const root = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const inSight = useRef({ first: 0, last: 0 });
  const filteredLine = useRef(0);
  const isPicked = useRef(false);

  // Down to the end of the window, whatever is above the log.
  useLayoutEffect(() => {
    const fit = (): void => {
      const element = root.current;
      if (element === null) return;
      const top = element.getBoundingClientRect().top + window.scrollY;
      element.style.blockSize = `max(24rem, ${Math.floor(window.innerHeight - top - MARGIN)}px)`;
    };
    fit();
    const observer = new ResizeObserver(fit);
    observer.observe(document.body);
    window.addEventListener("resize", fit);
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", fit);
    };
  }, []);

  const loader = useMemo(() => {
    const query = filterQuery({ ...wanted, q: "" });
    return new LineLoader(
      log.cache,
      async (from_line, limit) => await readLines(runId, { ...query, from_line, limit }),
      () => {
        setProblem(null);
        draw({});
      },
      (error) => !isAbort(error) && setProblem(asProblem(error)),
    );
  }, [runId, log.cache, wanted.task, wanted.level]);

  // The first line has the time from which others are counted.
  const firstLine = log.cache.get(1);
  const [startedAt, setStartedAt] = useState<number | null>(null);
  useEffect(() => {
    if (times !== "elapsed" || startedAt !== null || total === 0) return;
    if (firstLine) setStartedAt(firstLine.ts);
    else
      void readLines(runId, { limit: 1 }).then(
        (page) => setStartedAt(page.items[0]?.ts ?? null),
        (error: unknown) => setProblem(asProblem(error)),
      );
  }, [times, startedAt, total === 0, firstLine]);

  // A line of the address comes into sight when the address changes or when its row is known.
  const targetRow = line > 0 ? rowOf(rows, line) : -1;
  const isTargetKnown = line > 0 && targetRow < rowCount(rows);
  useEffect(() => {
    if (isTargetKnown && !isPicked.current) scroller.current?.show(targetRow);
    isPicked.current = false;
    // Without its filter the log is shown around what was in sight.
    if (isFiltered || filteredLine.current === 0) return;
    if (line === 0) scroller.current?.show(filteredLine.current - 1);
    filteredLine.current = 0;
  }, [line, isTargetKnown, isFiltered]);

  const go = useCallback(
    (direction: 1 | -1) => {
      const middle = numberAt(rows, Math.min(inSight.current.first, rowCount(rows) - 1));
      const next = matchFrom(search.numbers, line > 0 ? line : middle - 1, direction);
      if (next === null) return;
      setFollowing(false);
      if (next === line) scroller.current?.show(rowOf(rows, next));
      else setOwn({ line: String(next) });
    },
    [rows, search.numbers, line],
  );

  // The first match of a search that was typed comes into sight; that of an address has its own line.
  const isNewSearch = useRef(false);
  useEffect(() => {
    const first = search.numbers[0];
    if (!isNewSearch.current || first === undefined) return;
    isNewSearch.current = false;
    setFollowing(false);
    setOwn({ line: String(first) });
  }, [search.numbers]);

  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (q: string): void => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      isNewSearch.current = q !== "";
      setOwn({ q });
    }, TYPING_MS);
  };

  const focusSearch = useCallback(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  useShortcuts([
    { keys: ["/"], text: texts.keys.search, run: focusSearch },
    { keys: ["n"], text: texts.keys.next, run: () => go(1) },
    { keys: ["N"], text: texts.keys.previous, run: () => go(-1) },
    { keys: ["j"], text: texts.keys.down, run: () => scroller.current?.moveBy(3 * ROW_HEIGHT) },
    { keys: ["k"], text: texts.keys.up, run: () => scroller.current?.moveBy(-3 * ROW_HEIGHT) },
  ]);
  // The browser's own search sees only the lines in sight; in the field itself it stays at hand.
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const isFind = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "f";
      const active = document.activeElement;
      const isHere = active === null || active === document.body || active.id === "content" || root.current?.contains(active);
      if (!isFind || !isHere || active === input.current || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      focusSearch();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);

  const onRows = useCallback(
    (first: number, last: number) => {
      inSight.current = { first, last };
      filteredLine.current = isFiltered ? numberAt(rows, (first + last) >> 1) : filteredLine.current;
      loader.want(rows, first, last);
    },
    [loader, rows, isFiltered],
  );
  const onMoved = useCallback(
    (isAtEnd: boolean) => {
      setFollowing(isAtEnd && !log.isComplete);
      setSeen((before) => (isAtEnd ? 0 : before || total));
    },
    [total, log.isComplete],
  );
  const pick = useCallback((number: number) => {
    isPicked.current = true;
    setFollowing(false);
    setOwn({ line: String(number) });
  }, []);
  const follow = (): void => {
    setOwn({ line: "" });
    scroller.current?.toEnd();
    setFollowing(true);
    setSeen(0);
  };

  const isLive = log.lines !== null && !log.isComplete;
  const count = rowCount(rows);
  const shownProblem = log.problem ?? problem ?? search.problem ?? filter.problem;
  const fresh = seen > 0 && isLive ? total - seen : 0;
  const hasTasks = tasks.length > 1 && wanted.task === "";
  const taskChars = Math.min(20, Math.max(4, ...tasks.map((each) => each.length)));

  const draws = (row: number) => {
    const number = numberAt(rows, row);
    const found = log.cache.get(number);
    const before = row > 0 ? log.cache.get(numberAt(rows, row - 1)) : undefined;
    const isFirst = found !== undefined && (row === 0 ? found.attempt > 1 : before !== undefined && before.attempt !== found.attempt);
    const matchAt = lowerBound(search.numbers, number);
    return (
      <Row
        key={number}
        number={number}
        line={found}
        href={hashOf(path, lineQuery(query, number))}
        isTarget={number === line}
        isMatch={search.numbers[matchAt] === number}
        query={wanted.q}
        attempt={isFirst ? found.attempt : null}
        time={times === "none" ? null : timeText(times, found?.ts, startedAt)}
        hasTask={hasTasks}
        onPick={pick}
      />
    );
  };

  return (
    <div class="log" ref={root} style={{ "--log-task-chars": String(taskChars) }}>
      <Toolbar
        input={input}
        wanted={wanted}
        tasks={tasks}
        search={search}
        current={line > 0 && search.numbers[lowerBound(search.numbers, line)] === line ? lowerBound(search.numbers, line) + 1 : 0}
        isWrapping={isWrapping}
        times={times}
        onType={type}
        onGo={go}
        onLeave={() => scroller.current?.focus()}
        onFilter={(values) => setOwn(values)}
        onWrap={(on) => {
          store(preferences, WRAP, on ? null : "0");
          setWrapping(on);
        }}
        onTimes={(chosen) => {
          store(preferences, TIMES, chosen === "none" ? null : chosen);
          setTimes(chosen);
        }}
      />
      {shownProblem && <ProblemNotice problem={shownProblem} hasData={log.lines !== null} onRetry={log.retry} />}
      <div class="log-frame">
        {log.lines === null ? (
          shownProblem === null && <Loading />
        ) : count === 0 ? (
          <NoLines total={total} isFiltered={isFiltered} isSearching={isFiltered && !filter.isDone} finished={finished && log.isComplete} />
        ) : (
          <Scroller rows={count} isWrapping={isWrapping} isFollowing={isFollowing} label={texts.label} handle={scroller} onRows={onRows} onMoved={onMoved}>
            {draws}
          </Scroller>
        )}
        {fresh > 0 && (
          <button type="button" class="primary log-fresh" onClick={follow}>
            ↓ {texts.newLines(numberText(fresh))}
          </button>
        )}
      </div>
      <footer class="log-foot">
        <span class="log-state" role="status">
          {isLive && <LiveState connection={log.connection} hasResumed={log.hasResumed} />}
        </span>
        {log.lines !== null && (
          <span class="number">
            {isFiltered ? texts.linesOf(numberText(count), numberText(total)) : texts.lines(numberText(total), total)}
            {log.isComplete && ` · ${bytesText(log.bytes)}`}
          </span>
        )}
        <span class="spring" />
        {isLive && (
          <button type="button" class="quiet" aria-pressed={isFollowing} onClick={() => (isFollowing ? setFollowing(false) : follow())}>
            {isFollowing ? "◉" : "○"} {texts.follow}
          </button>
        )}
        <Download runId={runId} />
        <CallMenu calls={() => callsOf(runId, wanted)} />
      </footer>
    </div>
  );
}

function lineQuery(query: URLSearchParams, number: number): URLSearchParams {
  const own = new URLSearchParams(query);
  own.set("line", String(number));
  return own;
}

function NoLines({ total, isFiltered, isSearching, finished }: { total: number; isFiltered: boolean; isSearching: boolean; finished: boolean }) {
  const texts = t.value.log;
  if (isSearching && total > 0) return <Loading />;
  if (isFiltered && total > 0) {
    return (
      <Empty title={texts.empty.filtered}>
        <button type="button" onClick={() => setOwn({ task: "", level: "" })}>
          {texts.showAll}
        </button>
      </Empty>
    );
  }
  return (
    <Empty title={finished ? texts.empty.finished : texts.empty.waiting}>
      <p class="muted">{finished ? texts.empty.finishedHint : texts.empty.waitingHint}</p>
    </Empty>
  );
}

function LiveState({ connection, hasResumed }: { connection: string | null; hasResumed: boolean }) {
  const texts = t.value.log;
  if (connection === "waiting") return <span class="log-lost">⚠ {texts.lost}</span>;
  if (connection !== "open") return <>{texts.connecting}</>;
  return (
    <>
      <span class="log-live" aria-hidden="true">
        ●
      </span>{" "}
      {hasResumed ? texts.resumed : texts.live}
    </>
  );
}

/** The whole log as text; by `fetch`, because a link cannot send credentials. */
function Download({ runId }: { runId: string }) {
  const texts = t.value.log;
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const download = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      const response = await fetchApi(`/jobs/${encodeURIComponent(runId)}/logs`, { headers: { Accept: "text/plain" } });
      const address = URL.createObjectURL(await response.blob());
      const link = document.createElement("a");
      link.href = address;
      link.download = `${runId}.log`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      {problem && (
        <span class="log-lost" role="alert" dir="auto">
          {problem.message}
        </span>
      )}
      <button type="button" class="quiet" disabled={isBusy} onClick={() => void download()}>
        ⤓ {isBusy ? texts.downloading : texts.download}
      </button>
    </>
  );
}

function callsOf(runId: string, wanted: Wanted): Calls {
  const params = new URLSearchParams(filterQuery(wanted)).toString();
  const options = [wanted.q && `--search ${quoted(wanted.q)}`, wanted.task && `--task ${quoted(wanted.task)}`, wanted.level && `--level ${quoted(wanted.level)}`];
  const keywords = [wanted.task && `task=${pythonText(wanted.task)}`, wanted.level && `level=${pythonText(wanted.level)}`].filter(Boolean);
  const python = wanted.q
    ? `for line in client.search_run_logs(${[pythonText(runId), pythonText(wanted.q), ...keywords].join(", ")}):\n    print(line["n"], line["message"])`
    : keywords.length > 0
      ? `print(client.get_run_logs(${[pythonText(runId), ...keywords].join(", ")})["items"])`
      : `for line in client.follow_run_logs(${pythonText(runId)}):\n    print(line["message"])`;
  return {
    path: `/runs/${encodeURIComponent(runId)}/logs${params && `?${params}`}`,
    client: ["logs", quoted(runId), ...options.filter(Boolean)].join(" "),
    python,
  };
}
