import { expect, test } from "vitest";
import { curlOf, pythonOf, pythonText, quoted } from "./call-menu";
import { cut, visible } from "./name";
import { statusName } from "./status";

test("characters that reorder or hide text are shown instead of taking effect", () => {
  expect(visible("a\u202eb\u0000\u001b[31m\u200b日本")).toBe("a‹U+202E›b␀␛[31m‹U+200B›日本");
});

test("a cut does not split a character", () => {
  expect(cut("ab😀c", 3)).toBe("ab…");
  expect(cut("abc", 3)).toBe("abc");
});

test("a word stays one word in a shell", () => {
  expect(quoted("it's $(x)")).toBe(`'it'\\''s $(x)'`);
  expect(quoted("a-b.c")).toBe("a-b.c");
});

test("a text for Python has no character that ends or reorders it", () => {
  expect(pythonText('a"b\n日\u202e')).toBe('"a\\"b\\n\\u65e5\\u202e"');
  // In Python "\ud83d\ude00" is two halves, which no request can be made of.
  expect(pythonText("😀\ud800")).toBe('"\\U0001f600\\ud800"');
});

test("a call has its body, and no credential", () => {
  const calls = { path: "/runs?flow=a b", method: "POST", body: { x: "it's" }, client: "", python: "" } as const;

  expect(curlOf(calls)).toBe(
    `curl -sS -X POST -H 'Content-Type: application/json' -d '{"x":"it'\\''s"}' 'http://127.0.0.1:8000/runs?flow=a%20b'`,
  );
});

test("the Python of a call is a program that names this server", () => {
  expect(pythonOf({ path: "/wheels", python: "for wheel in client.list_wheels():\n    print(wheel)" })).toBe(
    [
      "from pyoco_server.http_client import PyocoHttpClient",
      "",
      'with PyocoHttpClient("http://127.0.0.1:8000") as client:',
      "    for wheel in client.list_wheels():",
      "        print(wheel)",
    ].join("\n"),
  );
});

test("both spellings of a cancelled run are one status, and an unknown one is none of them", () => {
  expect(statusName("CANCELED")).toBe("CANCELLED");
  expect(statusName("completed")).toBe("COMPLETED");
  expect(statusName("toString")).toBe("UNKNOWN");
});
