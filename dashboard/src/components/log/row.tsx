// One line of a log: its number, time and task, and its text with colours and marks of the search.

import { Component } from "preact";
import { number as numberText, utcTime } from "../../format";
import { t } from "../../texts";
import { cut, Name } from "../name";
import { segmentsOf, type Segment } from "./ansi";
import { occurrences } from "./finder";
import type { Line } from "./lines";

export type Times = "none" | "elapsed" | "clock";

export interface RowProps {
  readonly number: number;
  readonly line: Line | undefined;
  readonly href: string;
  /** The line that the address names. */
  readonly isTarget: boolean;
  readonly isMatch: boolean;
  readonly query: string;
  /** The attempt that begins with this line. */
  readonly attempt: number | null;
  readonly time: string | null;
  readonly hasTask: boolean;
  onPick(number: number): void;
}

/** Long lines are shown in steps: a browser lays out a line of megabytes for seconds. */
export const FIRST_CHARS = 2000;
const MORE_CHARS = 20_000;

/** A marker of the worker for lines that it dropped. */
export function isGap(line: Line): boolean {
  return line.stream === "pyoco" && /^\[pyoco: .* dropped: /.test(line.message);
}

export class Row extends Component<RowProps, { most: number }> {
  override state = { most: FIRST_CHARS };

  override shouldComponentUpdate(next: RowProps, state: { most: number }): boolean {
    return state.most !== this.state.most || (Object.keys(next) as (keyof RowProps)[]).some((key) => next[key] !== this.props[key]);
  }

  override render({ number, line, href, isTarget, isMatch, attempt, time, hasTask, onPick }: RowProps) {
    const texts = t.value.log;
    const level = line?.level ?? "INFO";
    const classes = ["log-line", `log-${level.toLowerCase()}`];
    if (isTarget) classes.push("log-target");
    if (isMatch) classes.push("log-match");
    if (line?.stream === "pyoco") classes.push(isGap(line) ? "log-gap" : "log-own");
    return (
      <div class="log-row" role="listitem">
        {attempt !== null && (
          <div class="log-attempt">
            <span>{texts.attempt(numberText(attempt))}</span>
          </div>
        )}
        <div class={classes.join(" ")}>
          <a
            class="log-number"
            href={href}
            data-number={number}
            aria-label={texts.lineNumber(numberText(number))}
            aria-current={isTarget ? "location" : undefined}
            tabIndex={-1}
            onClick={(event) => {
              if (event.ctrlKey || event.metaKey || event.shiftKey) return;
              event.preventDefault();
              onPick(number);
            }}
          />
          <span class="log-level" title={line && level !== "INFO" ? level : undefined}>
            {line && level !== "INFO" && (
              <>
                <span aria-hidden="true">{level[0]}</span>
                <span class="visually-hidden">{level}</span>
              </>
            )}
          </span>
          {time !== null && (
            <span class="log-time" title={line && utcTime(line.ts)}>
              {time}
            </span>
          )}
          {hasTask && <span class="log-task">{line?.task && <Name text={line.task} most={40} />}</span>}
          {line ? this.text(line) : <span class="log-text log-absent" aria-label={texts.loadingLine} />}
        </div>
      </div>
    );
  }

  private text(line: Line) {
    const { query, isTarget } = this.props;
    const first = isTarget && query ? (occurrences(line.message, query, 1)[0] ?? 0) + query.length + 200 : 0;
    const most = Math.max(this.state.most, first);
    const shown = cut(line.message, most);
    const rest = line.message.length - most;
    return (
      <span class="log-text" dir="auto">
        {marked(segmentsOf(shown), query)}
        {rest > 0 && (
          <button type="button" class="link log-more" onClick={() => this.setState({ most: most + MORE_CHARS })}>
            {t.value.log.showMore(numberText(rest))}
          </button>
        )}
        {"\n"}
      </span>
    );
  }
}

/** The pieces of a line with what was searched for in `<mark>`, also across pieces. */
function marked(segments: readonly Segment[], query: string) {
  const starts = occurrences(segments.map((each) => each.text).join(""), query);
  let at = 0;
  return segments.map((segment, index) => {
    const begin = at;
    at += segment.text.length;
    const parts = split(segment.text, starts, begin, query.length);
    const content = parts.map((part, place) => (part.isMarked ? <mark key={place}>{part.text}</mark> : part.text));
    return segment.style ? (
      <span key={index} class={segment.style}>
        {content}
      </span>
    ) : (
      content
    );
  });
}

export function split(text: string, starts: readonly number[], begin: number, length: number): { text: string; isMarked: boolean }[] {
  const parts: { text: string; isMarked: boolean }[] = [];
  let at = 0;
  for (const start of starts) {
    const from = Math.max(start - begin, 0);
    const to = Math.min(start + length - begin, text.length);
    if (to <= 0 || from >= text.length) continue;
    if (from > at) parts.push({ text: text.slice(at, from), isMarked: false });
    parts.push({ text: text.slice(from, to), isMarked: true });
    at = to;
  }
  if (at < text.length) parts.push({ text: text.slice(at), isMarked: false });
  return parts;
}
