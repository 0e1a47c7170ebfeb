// The place in the page, from the hash: `#/runs/<id>/log?line=7`. Paths belong to the API.

import { computed, signal } from "@preact/signals";

export interface Place {
  /** The parts of the path, decoded: `["runs", "<id>", "log"]`; empty for the first page. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

export function parseHash(hash: string): Place {
  const text = hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a malformed escape, typed by hand
  }
}

export type QueryValues = Readonly<Record<string, string | readonly string[] | null | undefined>>;

/** The address of a place; empty and absent values are left out, arrays are repeated. */
export function hashOf(path: readonly string[], query: QueryValues | URLSearchParams = {}): string {
  const given = query instanceof URLSearchParams ? query : toParams(query);
  const text = given.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

function toParams(values: QueryValues): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of typeof value === "string" ? [value] : (value ?? [])) {
      if (one !== "") params.append(name, one);
    }
  }
  return params;
}

const hash = signal(typeof location === "undefined" ? "" : location.hash);

export const place = computed(() => parseHash(hash.value));

export function startRouter(): void {
  window.addEventListener("hashchange", () => {
    hash.value = location.hash;
  });
}

export function navigate(to: string): void {
  location.hash = to;
}

/** Changes the query of the present place; by default without an entry in the history. */
export function setQuery(values: QueryValues | URLSearchParams, how: "replace" | "push" = "replace"): void {
  const to = hashOf(place.peek().path, values);
  if (how === "push") {
    navigate(to);
  } else if (to !== location.hash) {
    // A hash alone would be resolved against <base>.
    history.replaceState(history.state, "", location.pathname + location.search + to);
    hash.value = to;
  }
}
