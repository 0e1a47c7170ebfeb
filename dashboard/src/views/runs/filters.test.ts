import { expect, test } from "vitest";
import { hashOf, parseHash } from "../../router";
import { apiQuery, callsOf, chipsOf, filtersOf, MAX_ERROR_CHARS, meaningOf, NO_FILTERS, queryOf, secondsOf, suggestionsOf, withText, without, type Filters, type Known } from "./filters";

const ALL: Filters = {
  status: "FAILED",
  flow: "report & <b>",
  tag: "gpu",
  labels: ["team:data", "大きい"],
  since: undefined,
  after: "2026-02-18T00:00:00.000Z",
  before: "2026-02-19T00:00:00.000Z",
  idPrefix: "019a7c3e-51d",
  yaml: "ab".repeat(32),
  error: "50 % of #1",
};
const KNOWN: Known = {
  flows: ["report", "train"],
  tags: ["default", "gpu"],
  labels: [{ name: "nightly", runs: 12 }],
  statusText: (status) => (status === "FAILED" ? "失敗" : status),
};

function read(hash: string): Filters {
  return filtersOf(parseHash(hash).query);
}

test("filters survive the address of the page", () => {
  expect(read(hashOf(["runs"], queryOf(ALL)))).toEqual(ALL);
  expect(read(hashOf(["runs"], queryOf({ ...NO_FILTERS, since: "6h" })))).toMatchObject({ since: "6h", after: undefined });
  expect(hashOf(["runs"], queryOf(NO_FILTERS))).toBe("#/runs");
});

test.each([
  ["#/runs?status=failed&queue=gpu", { status: "FAILED", tag: "gpu" }],
  ["#/runs?since=6h&submitted_after=2026-01-01", { since: "6h", after: undefined }],
  ["#/runs?since=never&submitted_after=2026-01-01", { since: undefined, after: "2026-01-01" }],
  ["#/runs?tags=a&tags=a&tags=&tags=b", { labels: ["a", "b"] }],
  ["#/runs?id_prefix=019A", { idPrefix: "019a" }],
  [`#/runs?error=${"x".repeat(500)}`, { error: "x".repeat(MAX_ERROR_CHARS) }],
])("an address typed by hand is read as it is meant: %s", (hash, expected) => {
  expect(read(hash)).toMatchObject(expected);
});

test("a preset becomes a time, which stays the same for all pages", () => {
  expect(apiQuery({ ...NO_FILTERS, since: "1h" }, 10_000)).toEqual({ submitted_after: "6400.000" });
  expect(apiQuery(NO_FILTERS, 10_000)).toEqual({});
  expect(secondsOf("7d")).toBe(604_800);
  expect(["0h", "h", "1w", "1.5h", "-1h"].map(secondsOf)).toEqual([null, null, null, null, null]);
});

test("each chip removes its own filter", () => {
  const chips = chipsOf(ALL);

  expect(chips.map((chip) => chip.kind)).toEqual(["status", "flow", "tag", "label", "label", "range", "idPrefix", "yaml", "error"]);
  for (const chip of chips) {
    const rest = chipsOf(without(ALL, chip));
    expect(rest).toEqual(chips.filter((each) => each !== chip));
  }
  expect(chipsOf(chips.reduce(without, ALL))).toEqual([]);
});

test("labels add up, other filters replace each other", () => {
  expect(withText(ALL, "label", "大きい").labels).toEqual(ALL.labels);
  expect(withText(ALL, "label", "new").labels).toEqual([...ALL.labels, "new"]);
  expect(withText(ALL, "flow", "train").flow).toBe("train");
});

test("an empty field offers what is known", () => {
  const found = suggestionsOf("", { ...NO_FILTERS, flow: "train", status: "FAILED" }, KNOWN);

  expect(found.filter((each) => each.kind === "status")).toHaveLength(5);
  expect(found.filter((each) => each.kind !== "status").map((each) => each.value)).toEqual(["report", "nightly", "default", "gpu"]);
});

test.each([
  ["失敗", "status", "FAILED"],
  ["failed", "status", "FAILED"],
  ["report", "flow", "report"],
  ["nightly", "label", "nightly"],
  ["gpu", "tag", "gpu"],
  ["019A7C3E-51d", "idPrefix", "019a7c3e-51d"],
  ["face", "error", "face"],
  ["AB".repeat(32), "yaml", "ab".repeat(32)],
  ["connection refused", "error", "connection refused"],
  ["rep", "error", "rep"],
])("Enter takes %s as %s", (typed, kind, value) => {
  expect(meaningOf(typed, NO_FILTERS, KNOWN)).toMatchObject({ kind, value });
});

test("a flow that no worker announces any more can be chosen", () => {
  expect(suggestionsOf("old flow", NO_FILTERS, KNOWN)).toEqual([
    { kind: "error", value: "old flow" },
    { kind: "flow", value: "old flow" },
    { kind: "label", value: "old flow" },
  ]);
  expect(meaningOf("  ", NO_FILTERS, KNOWN)).toBeUndefined();
});

test("the calls to copy ask for the same list, and quote what is hostile", () => {
  const calls = callsOf({ ...ALL, error: "it's $(rm -rf ~)" }, 0);

  expect(new URLSearchParams(calls.path.split("?")[1]).getAll("tags")).toEqual(ALL.labels);
  expect(new URLSearchParams(calls.path.split("?")[1]).get("error")).toBe("it's $(rm -rf ~)");
  expect(calls.client).toContain(`--error 'it'\\''s $(rm -rf ~)'`);
  expect(calls.client).toContain("--tags team:data --tags '大きい'");
  expect(calls.python).toContain(`error="it's $(rm -rf ~)"`);
  expect(callsOf({ ...NO_FILTERS, labels: ["a", "b,c"] }, 0).client).toBeUndefined();
  expect(callsOf({ ...NO_FILTERS, since: "1h" }, 10_000).client).toBe("list --since 1h --output table");
});
