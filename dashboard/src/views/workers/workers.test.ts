import { expect, it } from "vitest";
import { matches, wheelSync, workersQuery, type Worker } from "./workers";

const WORKER = { worker_id: "GPU-1", tags: ["gpu", "default"], flows: ["train"], runner_user: null, wheel_sync: null } as unknown as Worker;

it("a filter is a scope or a state", () => {
  expect(workersQuery("", false)).toEqual({ limit: 500 });
  expect(workersQuery("all", true)).toEqual({ scope: "all", include_hidden: true, limit: 500 });
  expect(workersQuery("IDLE", false)).toEqual({ state: "IDLE", limit: 500 });
  expect(workersQuery("nonsense", false)).toEqual({ limit: 500 });
});

it("a worker is found by its name, tags and flows, by all words", () => {
  expect(["", "gpu-1", "gpu train", "DEFAULT"].map((text) => matches(WORKER, text))).toEqual([true, true, true, true]);
  expect(["cpu", "gpu cpu"].map((text) => matches(WORKER, text))).toEqual([false, false]);
});

it("without wheel sync a worker has none", () => {
  expect(wheelSync(WORKER).state).toBe("off");
});

it("the reports of tenants are part of the worker's, and the worst state counts", () => {
  const report = {
    last_result: "ok",
    last_sync_at: 10,
    installed_count: 1,
    installed: [{ wheel_name: "a-1.whl" }],
    failed_count: 0,
    tenants: { red: { last_result: "partial", last_sync_at: 20, installed_count: 2, failed_count: 1, failed: [{ wheel_name: "b-1.whl", reason: "no match" }] } },
  };

  expect(wheelSync({ ...WORKER, wheel_sync: report })).toEqual({
    state: "partial",
    installedCount: 3,
    failedCount: 1,
    installed: ["a-1.whl"],
    failed: [{ name: "b-1.whl", reason: "no match" }],
    skipped: [],
    error: "",
    at: 20,
  });
});

it("a report of an unexpected form does no harm", () => {
  expect(wheelSync({ ...WORKER, wheel_sync: { installed: "x", failed: [null, 3], tenants: [] } as never }).failed).toEqual([
    { name: "", reason: "" },
    { name: "", reason: "" },
  ]);
});
