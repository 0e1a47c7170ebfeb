import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { en } from "./en";
import { ja } from "./ja";

/** `shell.retry`, `shell.problems.retryIn()`: the paths of all texts, with what is a function marked. */
function pathsOf(texts: object, prefix = ""): string[] {
  return Object.entries(texts).flatMap(([key, value]) => {
    if (typeof value === "object" && value !== null) return pathsOf(value as object, `${prefix}${key}.`);
    return [`${prefix}${key}${typeof value === "function" ? `(${value.length})` : ""}`];
  });
}

test("both languages have the same texts", () => {
  expect(pathsOf(ja).sort()).toEqual(pathsOf(en).sort());
});

test("no text is empty", () => {
  const values = (texts: object): unknown[] => Object.values(texts).flatMap((value) => (typeof value === "object" && value !== null ? values(value as object) : [value]));

  expect([...values(en), ...values(ja)].filter((value) => value === "")).toEqual([]);
});

// What a visitor reads or hears of an element.
const SHOWN_ATTRIBUTES = new Set(["title", "alt", "label", "placeholder", "aria-label", "aria-description", "aria-roledescription"]);
// Names of products and languages, which are the same in every language.
const SAME_EVERYWHERE = new Set(["English", "日本語"]);
const SOURCES = join(import.meta.dirname, "..");

function literalTexts(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.ES2022, true, ts.ScriptKind.TSX);
  const found: string[] = [];
  const note = (text: string): void => {
    // Marks such as `×` or `/` are no words.
    if (/\p{L}{2}/u.test(text) && !SAME_EVERYWHERE.has(text.trim())) found.push(`${file}: ${text.trim()}`);
  };
  const visit = (node: ts.Node): void => {
    if (ts.isJsxText(node)) note(node.text);
    else if (ts.isJsxAttribute(node) && SHOWN_ATTRIBUTES.has(node.name.getText()) && node.initializer && ts.isStringLiteral(node.initializer)) note(node.initializer.text);
    else if (ts.isJsxExpression(node) && node.expression && ts.isStringLiteralLike(node.expression) && !ts.isJsxAttribute(node.parent)) note(node.expression.text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

test("no text is written in a component", () => {
  const components = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".tsx"));

  expect(components.length).toBeGreaterThan(10);
  expect(components.flatMap((name) => literalTexts(join(SOURCES, name)))).toEqual([]);
});
