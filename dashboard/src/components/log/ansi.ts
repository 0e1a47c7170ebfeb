// Escape sequences of terminals in a line: colours and styles become classes, other sequences have no effect.
//
// A line stands for itself: what an earlier line switched on is unknown in the middle of a long log.

import { visible } from "../name";

export interface Segment {
  readonly text: string;
  /** Classes, separated by spaces; empty for plain text. */
  readonly style: string;
}

// CSI with its parameters and its final byte; a string of OSC, DCS, SOS, PM or APC with its end; other two-byte sequences.
const SEQUENCE = /\u001b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|[ -/]*[0-OQ-WYZ\\`-~])/g;

interface Style {
  readonly on: ReadonlySet<string>;
  readonly foreground: number | null;
  readonly background: number | null;
}

const PLAIN: Style = { on: new Set(), foreground: null, background: null };
const SWITCHES: Readonly<Record<number, string>> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike", 21: "underline" };
const OFF: Readonly<Record<number, readonly string[]>> = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };

/** The line in pieces of one style each; characters that would act on the page are shown as symbols. */
export function segmentsOf(line: string): Segment[] {
  if (!line.includes("\u001b")) return line === "" ? [] : [{ text: readable(line), style: "" }];
  const found: Segment[] = [];
  let style = PLAIN;
  let at = 0;
  const add = (text: string): void => {
    if (text === "") return;
    const classes = classesOf(style);
    const before = found.at(-1);
    if (before?.style === classes) found[found.length - 1] = { text: before.text + readable(text), style: classes };
    else found.push({ text: readable(text), style: classes });
  };
  for (const sequence of line.matchAll(SEQUENCE)) {
    add(line.slice(at, sequence.index));
    at = sequence.index + sequence[0].length;
    if (sequence[2] === "m") style = styled(style, sequence[1] ?? "");
  }
  add(line.slice(at));
  return found;
}

function readable(text: string): string {
  // A tab has its width; the symbol for it would be noise.
  return visible(text).replaceAll("\u2409", "\t");
}

function styled(before: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map((each) => (each === "" ? 0 : Number(each)));
  const on = new Set(before.on);
  let { foreground, background } = before;
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index] ?? 0;
    if (code === 0) {
      on.clear();
      foreground = background = null;
    } else if (SWITCHES[code]) on.add(SWITCHES[code]);
    else if (OFF[code]) OFF[code].forEach((each) => on.delete(each));
    else if (code >= 30 && code <= 37) foreground = code - 30;
    else if (code >= 90 && code <= 97) foreground = code - 82;
    else if (code >= 40 && code <= 47) background = code - 40;
    else if (code >= 100 && code <= 107) background = code - 92;
    else if (code === 39) foreground = null;
    else if (code === 49) background = null;
    else if (code === 38 || code === 48) {
      const isPalette = codes[index + 1] === 5;
      const values = codes.slice(index + 2, index + (isPalette ? 3 : 5));
      const nearest = isPalette ? nearestOfPalette(values[0] ?? 0) : nearestOf(values[0] ?? 0, values[1] ?? 0, values[2] ?? 0);
      if (code === 38) foreground = nearest;
      else background = nearest;
      index += isPalette ? 2 : 4;
    }
  }
  return { on, foreground, background };
}

function classesOf({ on, foreground, background }: Style): string {
  const classes = [...on].filter((each) => each !== "inverse").map((each) => `ansi-${each}`);
  const shown = on.has("inverse") ? (foreground ?? 7) : background;
  // On a coloured ground the text has the one colour that can be read there.
  if (shown !== null) classes.push("ansi-ground", `ansi-on-${shown}`);
  else if (foreground !== null) classes.push(`ansi-${foreground}`);
  return classes.join(" ");
}

// The page has sixteen colours that can be read on light and on dark ground: others become the nearest of these.
const BASE: readonly (readonly [number, number, number])[] = [0, 1, 2, 3, 4, 5, 6, 7].flatMap((bits) => {
  const of = (level: number): readonly [number, number, number] => [bits & 1 ? level : 0, bits & 2 ? level : 0, bits & 4 ? level : 0];
  return [of(170), of(255)];
});

function nearestOf(red: number, green: number, blue: number): number {
  const distances = BASE.map(([r, g, b]) => (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2);
  const index = distances.indexOf(Math.min(...distances));
  return Math.floor(index / 2) + (index % 2 ? 8 : 0);
}

function nearestOfPalette(code: number): number {
  if (code < 16) return code;
  if (code >= 232) return nearestOf(8 + (code - 232) * 10, 8 + (code - 232) * 10, 8 + (code - 232) * 10);
  const cube = code - 16;
  const level = (part: number): number => (part === 0 ? 0 : 55 + part * 40);
  return nearestOf(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}
