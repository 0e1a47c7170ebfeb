import { expect, test } from "vitest";
import { flowsQuery, recentShare, submitCalls, type Flow } from "./flows";

test("absent filters are left out of the query", () => {
  expect(flowsQuery("", "")).toEqual({});
  expect(flowsQuery("re", "gpu")).toEqual({ q: "re", tag: "gpu" });
});

test("running runs do not count for the share of success", () => {
  const recent = (statuses: Record<string, number>) => ({ statuses }) as Flow["recent"];

  expect(recentShare(recent({ COMPLETED: 3, FAILED: 1, RUNNING: 9 }))).toBe(0.75);
  expect(recentShare(recent({ RUNNING: 1 }))).toBeNull();
});

test("a submission names every required parameter", () => {
  const calls = submitCalls("nightly report", [
    { name: "year", required: true },
    { name: "title", required: false },
  ]);

  expect(calls.body).toEqual({ flow_name: "nightly report", params: { year: "…" } });
  expect(calls.client).toBe("submit --flow-name 'nightly report' 'year=…'");
  expect(calls.python).toBe('run_id = client.submit_run("nightly report", {"year": "\\u2026"})["run_id"]');
});

test("a hostile name stays one word and one string", () => {
  const calls = submitCalls("a'; rm -rf / #\n\u202e\"", null);

  expect(calls.client).toContain(`'a'\\''; rm -rf / #`);
  expect(calls.python).toContain('"a\'; rm -rf / #\\n\\u202e\\""');
});
