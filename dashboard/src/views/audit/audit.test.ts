import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ACTIONS, auditFilters, factsOf, placeOf } from "./audit";

it("only filters that are given are asked for, times in UTC", () => {
  const given: Record<string, string> = { actor: "ann", since: "2026-02-18T12:00", until: "never" };

  expect(auditFilters((name) => given[name] ?? "")).toEqual({ actor: "ann", since: new Date("2026-02-18T12:00").toISOString() });
});

it("the actions are those of the documentation", () => {
  const page = readFileSync(join(import.meta.dirname, "../../../../docs/how-to/find-out-who-did-what.md"), "utf8");
  const table = page.slice(page.indexOf("| resource | actions |"), page.indexOf("No record:"));
  const documented = [...table.matchAll(/`([a-z_]+\.[a-z_]+)`/g)].map((match) => match[1]).filter((name) => !name?.startsWith("detail."));

  expect([...ACTIONS].sort()).toEqual([...new Set(documented)].sort());
});

it("resources lead to their place, encoded", () => {
  expect(placeOf("run", "a/b?c")).toBe("#/runs/a%2Fb%3Fc");
  expect(placeOf("strategy", "*")).toBe("#/strategies");
  expect(placeOf("strategy", "trend.h1")).toBe("#/strategies/strategy/trend.h1");
  expect(placeOf("api_key", "0123")).toBeNull();
});

it("facts are texts", () => {
  expect(factsOf({ flow: "train", scopes: ["a", "b"], count: 3 })).toEqual([
    ["flow", "train"],
    ["scopes", '["a","b"]'],
    ["count", "3"],
  ]);
});
