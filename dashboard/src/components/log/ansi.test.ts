import { expect, test } from "vitest";
import { segmentsOf } from "./ansi";

const ESC = "\u001b";

test("a plain line is one piece", () => {
  expect(segmentsOf("loaded 3 rows")).toEqual([{ text: "loaded 3 rows", style: "" }]);
  expect(segmentsOf("")).toEqual([]);
});

test("colours and styles last until they are switched off", () => {
  expect(segmentsOf(`a${ESC}[1;31mb${ESC}[22mc${ESC}[0md`)).toEqual([
    { text: "a", style: "" },
    { text: "b", style: "ansi-bold ansi-1" },
    { text: "c", style: "ansi-1" },
    { text: "d", style: "" },
  ]);
  expect(segmentsOf(`${ESC}[91mx${ESC}[39my${ESC}[my`)).toEqual([
    { text: "x", style: "ansi-9" },
    { text: "yy", style: "" },
  ]);
});

test("text on a coloured ground has the colour that can be read there", () => {
  expect(segmentsOf(`${ESC}[31;41mx`)[0]?.style).toBe("ansi-ground ansi-on-1");
  expect(segmentsOf(`${ESC}[7;32mx`)[0]?.style).toBe("ansi-ground ansi-on-2");
});

test("a colour of the palette or of 24 bits becomes the nearest one", () => {
  expect(segmentsOf(`${ESC}[38;5;196mx`)[0]?.style).toBe("ansi-9");
  expect(segmentsOf(`${ESC}[38;2;0;170;0mx`)[0]?.style).toBe("ansi-2");
  expect(segmentsOf(`${ESC}[38;5;4mx`)[0]?.style).toBe("ansi-4");
  expect(segmentsOf(`${ESC}[38;5;1;4mx`)[0]?.style).toBe("ansi-underline ansi-1");
});

test.each([
  ["moves and erasures", `a${ESC}[2J${ESC}[10;10Hb`, "ab"],
  ["a link", `${ESC}]8;;http://example.org/${ESC}\\text${ESC}]8;;${ESC}\\`, "text"],
  ["a title", `${ESC}]0;title\u0007x`, "x"],
  ["a string without an end", `${ESC}]8;;javascript:x`, "␛]8;;javascript:x"],
  ["a lone escape", `a${ESC}`, "a␛"],
  ["parameters without an end", `${ESC}[31;`, "␛[31;"],
])("%s has no effect", (_, line, shown) => {
  expect(segmentsOf(line)).toEqual([{ text: shown, style: "" }]);
});

test("what would act on the page is shown, and a tab stays a tab", () => {
  expect(segmentsOf("a\u0000\u202eb\tc\r")).toEqual([{ text: "a␀‹U+202E›b\tc␍", style: "" }]);
  expect(segmentsOf(`${ESC}[1m<script>`)).toEqual([{ text: "<script>", style: "ansi-bold" }]);
});

test("parameters that mean nothing are ignored, however many", () => {
  expect(segmentsOf(`${ESC}[999;${"5;".repeat(10_000)}mx`)).toEqual([{ text: "x", style: "" }]);
  expect(segmentsOf(`${ESC}[38mx`)[0]?.text).toBe("x");
});
