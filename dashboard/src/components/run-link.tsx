// A link to a run in lists, with the first characters of its id: commands and the list's filter take them, too.

import { hashOf } from "../router";
import { visible } from "./name";

const SHORT_ID_CHARS = 13;

export function shortId(id: string): string {
  return visible(id.slice(0, SHORT_ID_CHARS));
}

export function RunLink({ id }: { id: string }) {
  const whole = visible(id);
  return (
    <a class="mono" href={hashOf(["runs", id])} title={whole} aria-label={whole}>
      {shortId(id)}
    </a>
  );
}
