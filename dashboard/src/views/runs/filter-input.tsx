// One field for all filters: what is typed is offered as each filter that it can mean.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { api, body } from "../../api/client";
import { Name } from "../../components/name";
import { statusText } from "../../components/status";
import { useShortcuts } from "../../components/shortcuts";
import { number } from "../../format";
import { t } from "../../texts";
import { meaningOf, suggestionsOf, type Filters, type Known, type Suggestion } from "./filters";

const WAIT_MS = 150;

interface Props {
  readonly filters: Filters;
  /** Names in the rows that are loaded. */
  readonly seen: () => { readonly flows: readonly string[]; readonly tags: readonly string[] };
  readonly onChoose: (suggestion: Suggestion) => void;
  /** Backspace in an empty field. */
  readonly onRemoveLast: () => void;
}

export function FilterInput({ filters, seen, onChoose, onRemoveLast }: Props) {
  const texts = t.value.runs;
  const [text, setText] = useState("");
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const listId = useId();
  const known = useKnown(text, isOpen, seen);
  const found = isOpen ? suggestionsOf(text, filters, known) : [];
  useShortcuts([{ keys: ["/"], text: texts.keys.filter, run: () => field.current?.focus() }]);

  const close = (): void => {
    setOpen(false);
    setActive(-1);
  };
  const choose = (suggestion: Suggestion): void => {
    onChoose(suggestion);
    setText("");
    close();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    // An input method uses these keys while it converts.
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setOpen(true);
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (found.length > 0) setActive((active + step + found.length + (active < 0 && step < 0 ? 1 : 0)) % found.length);
    } else if (event.key === "Enter") {
      const chosen = found[active] ?? meaningOf(text, filters, known);
      if (chosen) choose(chosen);
    } else if (event.key === "Escape") {
      if (isOpen) close();
      else field.current?.blur();
    } else if (event.key === "Backspace" && text === "") onRemoveLast();
  };
  return (
    <div class="runs-filter">
      <input
        ref={field}
        type="text"
        role="combobox"
        aria-label={texts.filters.label}
        aria-expanded={found.length > 0}
        aria-controls={listId}
        aria-autocomplete="list"
        aria-activedescendant={active >= 0 && active < found.length ? `${listId}-${active}` : undefined}
        autocomplete="off"
        spellcheck={false}
        maxLength={256}
        placeholder={texts.filters.placeholder}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setActive(-1);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onClick={() => setOpen(true)}
        onBlur={close}
        onKeyDown={onKeyDown}
      />
      <ul id={listId} role="listbox" aria-label={texts.filters.suggestions} hidden={found.length === 0}>
        {found.map((suggestion, index) => (
          <li
            key={`${suggestion.kind} ${suggestion.value}`}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === active}
            // The field would lose the focus, and the list close, before the click.
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => choose(suggestion)}
          >
            <span class="muted">{texts.filters.kinds[suggestion.kind]}</span>
            <Name text={suggestion.kind === "status" ? statusText(suggestion.value) : suggestion.value} most={60} />
            {suggestion.runs !== undefined && <span class="muted small number">{texts.filters.labelRuns(number(suggestion.runs))}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Flows that workers announce, labels of stored runs, and what the loaded rows have: flows may exist in runs only. */
function useKnown(text: string, isOpen: boolean, seen: Props["seen"]): Known {
  const [known, setKnown] = useState<Pick<Known, "flows" | "labels">>({ flows: [], labels: [] });
  const typed = text.trim();
  useEffect(() => {
    if (!isOpen) return undefined;
    const stop = new AbortController();
    const read = async (): Promise<void> => {
      const { signal } = stop;
      // A key may have the scope for one of them only, and completion is a help: what fails is left out.
      const [flows, labels] = await Promise.all([
        body(api.GET("/flows", { params: { query: { q: typed, limit: 10 } }, signal })).catch(() => null),
        body(api.GET("/tags", { params: { query: { prefix: typed, limit: 10 } }, signal })).catch(() => null),
      ]);
      if (signal.aborted) return;
      setKnown({ flows: (flows?.items ?? []).map((flow) => flow.name), labels: (labels?.tags ?? []).map((label) => ({ name: label.tag, runs: label.count })) });
    };
    const timer = setTimeout(() => void read(), WAIT_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [typed, isOpen]);
  const rows = isOpen ? seen() : { flows: [], tags: [] };
  return { ...known, flows: [...new Set([...known.flows, ...rows.flows])], tags: rows.tags, statusText };
}
