// Search, filters and appearance of a log.

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import { number as numberText, percent } from "../../format";
import { t } from "../../texts";
import { cut, visible } from "../name";
import type { Found } from "./finder";
import type { Times } from "./row";
import { LEVELS, type Wanted } from "./use-matches";

interface Props {
  readonly input: RefObject<HTMLInputElement | null>;
  readonly wanted: Wanted;
  readonly tasks: readonly string[];
  readonly search: Found;
  /** The number of the match in sight, from 1; 0 for none. */
  readonly current: number;
  readonly isWrapping: boolean;
  readonly times: Times;
  onType(q: string): void;
  onGo(direction: 1 | -1): void;
  onLeave(): void;
  onFilter(values: { task?: string; level?: string }): void;
  onWrap(on: boolean): void;
  onTimes(times: Times): void;
}

export function Toolbar({ input, wanted, tasks, search, current, isWrapping, times, onType, onGo, onLeave, onFilter, onWrap, onTimes }: Props) {
  const texts = t.value.log;
  const [typed, setTyped] = useState(wanted.q);
  // The address may change otherwise, too: by the way back.
  useEffect(() => setTyped(wanted.q), [wanted.q]);
  const change = (text: string): void => {
    setTyped(text);
    onType(text);
  };
  const known = wanted.task && !tasks.includes(wanted.task) ? [wanted.task, ...tasks] : tasks;
  return (
    <div class="log-tools" role="search" aria-label={texts.label}>
      <div class="log-search">
        <input
          ref={input}
          type="search"
          value={typed}
          maxLength={200}
          placeholder={texts.searchPlaceholder}
          aria-label={texts.search}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => change(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.isComposing) return;
            if (event.key === "Enter") {
              event.preventDefault();
              onGo(event.shiftKey ? -1 : 1);
            } else if (event.key === "Escape") {
              event.preventDefault();
              change("");
              onLeave();
            }
          }}
        />
        {wanted.q && (
          <>
            <span class="log-count" role="status">
              {countText(search, current)}
            </span>
            <button type="button" class="quiet" aria-label={texts.previous} title={`${texts.previous} (N)`} disabled={search.numbers.length === 0} onClick={() => onGo(-1)}>
              ↑
            </button>
            <button type="button" class="quiet" aria-label={texts.next} title={`${texts.next} (n)`} disabled={search.numbers.length === 0} onClick={() => onGo(1)}>
              ↓
            </button>
          </>
        )}
      </div>
      {(known.length > 1 || wanted.task) && (
        <label>
          <span class="log-caption">{texts.task}</span>
          <select class="log-tasks" value={wanted.task} onChange={(event) => onFilter({ task: event.currentTarget.value })}>
            <option value="">{texts.allTasks}</option>
            {known.map((each) => (
              <option key={each} value={each}>
                {visible(cut(each, 60))}
              </option>
            ))}
          </select>
        </label>
      )}
      <label>
        <span class="log-caption">{texts.level}</span>
        <select value={wanted.level} onChange={(event) => onFilter({ level: event.currentTarget.value })}>
          <option value="">{texts.allLevels}</option>
          {LEVELS.slice(1).map((each) => (
            <option key={each} value={each}>
              {texts.orWorse(each)}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="log-caption">{texts.time}</span>
        <select value={times} onChange={(event) => onTimes(event.currentTarget.value as Times)}>
          {(["none", "elapsed", "clock"] as const).map((each) => (
            <option key={each} value={each}>
              {texts.times[each]}
            </option>
          ))}
        </select>
      </label>
      <label class="log-check">
        <input type="checkbox" checked={isWrapping} onChange={(event) => onWrap(event.currentTarget.checked)} />
        {texts.wrap}
      </label>
    </div>
  );
}

function countText({ numbers, isDone, scannedTo, lines }: Found, current: number): string {
  const texts = t.value.log;
  const found =
    numbers.length === 0
      ? isDone
        ? texts.noMatch
        : ""
      : current > 0
        ? texts.matchOf(numberText(current), numberText(numbers.length))
        : texts.matches(numberText(numbers.length), numbers.length);
  return isDone ? found : `${found} ${texts.searched(percent(lines > 0 ? scannedTo / lines : 0))}`.trim();
}
