import { expect, test } from "vitest";
import { hashOf, parseHash } from "./router";
import { viewOf } from "./views";

test("a place survives its address, whatever is in it", () => {
  const path = ["runs", "a/b?c#d %", "日本"];
  const query = { q: "x=1&y", labels: ["a", "b c"], empty: "", absent: null };

  const place = parseHash(hashOf(path, query));

  expect(place.path).toEqual(path);
  expect([...place.query]).toEqual([["q", "x=1&y"], ["labels", "a"], ["labels", "b c"]]);
});

test("a malformed escape is taken as it is", () => {
  expect(parseHash("#/runs/%E0%A4%A").path).toEqual(["runs", "%E0%A4%A"]);
});

test("a list and one of its things are different views", () => {
  expect(viewOf([])?.name).toBe("overview");
  expect(viewOf(["runs"])?.name).toBe("runs");
  expect(viewOf(["runs", "id", "log"])?.name).toBe("run");
  expect(viewOf(["flows", "hello"])?.name).toBe("flows");
  expect(viewOf(["workers", "x"])).toBeUndefined();
  expect(viewOf(["nothing"])).toBeUndefined();
});
