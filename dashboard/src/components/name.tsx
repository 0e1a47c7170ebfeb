// Texts from outside: names, errors, labels. They cannot change the direction or the layout of what is around them.

import { useState } from "preact/hooks";
import { t } from "../texts";

// Control characters, and characters that reorder text: shown as symbols instead of taking effect.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text: string): string {
  return text.replace(INVISIBLE, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `\u2039U+${code.toString(16).toUpperCase().padStart(4, "0")}\u203a`;
  });
}

/** The beginning of a long text, cut between characters. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = text.charCodeAt(most - 1) >= 0xd800 && text.charCodeAt(most - 1) <= 0xdbff ? most - 1 : most;
  return `${text.slice(0, end)}…`;
}

const TITLE_CHARS = 500;

/** A name on one line; what does not fit is on hover. */
export function Name({ text, most = 120 }: { text: string; most?: number }) {
  const shown = visible(cut(text, most));
  return (
    <bdi class="name" title={text.length > 24 ? visible(cut(text, TITLE_CHARS)) : undefined}>
      {shown}
    </bdi>
  );
}

const FIRST_CHARS = 2000;
const MORE_CHARS = 20_000;

/** A text of any length over several lines; a long one is shown step by step. */
export function LongText({ text, first = FIRST_CHARS }: { text: string; first?: number }) {
  const [most, setMost] = useState(first);
  const lines = cut(text, most)
    .split(/\r\n|\n|\r/)
    .map(visible)
    .join("\n");
  return (
    <div class="long-text">
      <pre dir="auto">{lines}</pre>
      {text.length > most && (
        <button type="button" class="link" onClick={() => setMost(most + MORE_CHARS)}>
          {t.value.shell.showMore}
        </button>
      )}
    </div>
  );
}
