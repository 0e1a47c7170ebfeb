import { expect, test } from "vitest";
import { listCalls, recheckCalls, strategyCalls } from "./calls";

test("the calls of the list ask for the same page, and quote what is hostile", () => {
  const calls = listCalls({ q: "it's $(rm)", tags_any: "daily,fx", enabled: "off", sort: "id.asc", page: 2, page_size: 50 });

  expect(calls).toEqual({
    path: "/gui/strategies?q=it%27s+%24%28rm%29&tags_any=daily%2Cfx&enabled=off&sort=id.asc&page=2&page_size=50",
    client: "strategies --q 'it'\\''s $(rm)' --tag daily,fx --enabled off --sort id.asc --page 2 --page-size 50",
    python: [
      'page = client.list_strategies(q="it\'s $(rm)", tags_any="daily,fx", enabled="off", sort="id.asc", page=2, page_size=50)',
      'for strategy in page["items"]:',
      '    print(strategy["id"], strategy["last_health"])',
    ].join("\n"),
  });
});

test("an id that looks like an option is none", () => {
  const [strategy, recheck] = [strategyCalls("-rf", 7, 100), recheckCalls("a/b c")];

  expect([strategy.path, strategy.client]).toEqual(["/gui/strategies/-rf?summary_window_days=7&limit_history=100", "strategy --days 7 --limit 100 -- -rf"]);
  expect(strategy.python).toContain('client.get_strategy("-rf", summary_window_days=7, limit_history=100)');
  expect([recheck.path, recheck.client]).toEqual(["/pdca/recheck/a%2Fb%20c", "recheck -- 'a/b c'"]);
  expect(recheck.python).toContain('client.get_recheck("a/b c")');
});
