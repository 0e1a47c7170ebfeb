import { expect, test } from "vitest";
import type { Line } from "./lines";
import { isGap, split } from "./row";

function line(stream: string, message: string): Line {
  return { n: 1, ts: 0, task: null, level: "WARNING", stream, message, attempt: 1 };
}

test("missing lines are marked by pyoco-server only, and not by what a flow prints", () => {
  const marker = "[pyoco: 81230 lines dropped: the log has reached PYOCO_MAX_RUN_LOG_BYTES; the last lines follow]";

  expect(isGap(line("pyoco", marker))).toBe(true);
  expect(isGap(line("stdout", marker))).toBe(false);
  expect(isGap(line("pyoco", "Traceback (most recent call last):"))).toBe(false);
});

test("a mark may begin in one piece of a line and end in another", () => {
  // "an err" and "or here" with a mark of five characters from 3 on
  expect(split("an err", [3], 0, 5)).toEqual([
    { text: "an ", isMarked: false },
    { text: "err", isMarked: true },
  ]);
  expect(split("or here", [3], 6, 5)).toEqual([
    { text: "or", isMarked: true },
    { text: " here", isMarked: false },
  ]);
  expect(split("none", [], 0, 5)).toEqual([{ text: "none", isMarked: false }]);
});
