// Filters that are part of the address: `?tag=gpu`.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { place, setQuery } from "../router";

// While someone types, nothing is asked.
const TYPING_MS = 400;

export function filterValue(name: string): string {
  return place.value.query.get(name) ?? "";
}

/** Changes one filter of the present place; the page number does not survive it. */
export function setFilter(name: string, value: string): void {
  const query = new URLSearchParams(place.peek().query);
  if (name !== "page") query.delete("page");
  if (value === "") query.delete(name);
  else query.set(name, value);
  setQuery(query);
}

export function Filters({ children }: { children: ComponentChildren }) {
  return (
    <form class="filters" role="search" method="dialog" onSubmit={(event) => event.preventDefault()}>
      {children}
    </form>
  );
}

export function FilterText({ name, label, most = 256, placeholder }: { name: string; label: string; most?: number; placeholder?: string }) {
  const given = filterValue(name);
  const [text, setText] = useState(given);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setText(given), [given]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const apply = (value: string): void => {
    clearTimeout(timer.current);
    if (value.trim() !== filterValue(name)) setFilter(name, value.trim());
  };
  return (
    <label>
      {label}
      <input
        type="search"
        maxLength={most}
        spellcheck={false}
        placeholder={placeholder}
        value={text}
        onInput={(event) => {
          const { value } = event.currentTarget;
          setText(value);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => apply(value), TYPING_MS);
        }}
        onChange={(event) => apply(event.currentTarget.value)}
      />
    </label>
  );
}

export function FilterSelect({ name, label, options, byDefault = "" }: { name: string; label: string; options: readonly (readonly [value: string, text: string])[]; byDefault?: string }) {
  return (
    <label>
      {label}
      <select value={filterValue(name) || byDefault} onChange={(event) => setFilter(name, event.currentTarget.value === byDefault ? "" : event.currentTarget.value)}>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function FilterCheck({ name, label }: { name: string; label: string }) {
  return (
    <label class="check">
      <input type="checkbox" checked={filterValue(name) === "1"} onChange={(event) => setFilter(name, event.currentTarget.checked ? "1" : "")} />
      {label}
    </label>
  );
}

/** A local time without a zone, as the browser's field has it. */
export function FilterTime({ name, label }: { name: string; label: string }) {
  return (
    <label>
      {label}
      <input type="datetime-local" value={filterValue(name)} onChange={(event) => setFilter(name, event.currentTarget.value)} />
    </label>
  );
}
