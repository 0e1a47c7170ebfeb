import { expect, test } from "vitest";
import { ApiError } from "../../api/problem";
import type { ApiQuery } from "./filters";
import type { Run } from "./run-list";
import { MAX_CHANGE_PAGES, MAX_WAITING, PAGE_ROWS, RunsModel, type Page, type PageQuery } from "./runs-model";

function runs(count: number, first = 0, status: Run["status"] = "COMPLETED"): Run[] {
  return Array.from({ length: count }, (_, n) => ({ run_id: `run-${first + n}`, status, updated_at: 10_000 - first - n, version: 1 }) as Run);
}

/** A gateway with these answers, in order of the questions. */
function gateway(query: ApiQuery, ...answers: (Page | Error)[]): { model: RunsModel; asked: PageQuery[] } {
  const asked: PageQuery[] = [];
  const read = async (question: PageQuery): Promise<Page> => {
    asked.push(question);
    const answer = answers.shift() ?? { items: [], next_cursor: null };
    if (answer instanceof Error) throw answer;
    return await Promise.resolve(answer);
  };
  return { model: new RunsModel(query, read), asked };
}

const AWAY = new ApiError({ status: 503, message: "away", hint: "", id: "ERR-PYOCO-0003", requestId: "", retryAfterSec: null });

test("a page is read at a time, with the cursor of the page before", async () => {
  const { model, asked } = gateway({ flow: "f" }, { items: runs(PAGE_ROWS), next_cursor: "c-1", total: null }, { items: runs(5, PAGE_ROWS), next_cursor: null });

  await model.loadMore();
  expect([model.list.order.length, model.hasMore]).toEqual([PAGE_ROWS, true]);
  await model.loadMore();
  await model.loadMore();

  expect([model.list.order.length, model.hasMore]).toEqual([PAGE_ROWS + 5, false]);
  expect(asked).toEqual([
    { flow: "f", cursor: "", limit: PAGE_ROWS },
    { flow: "f", cursor: "c-1", limit: PAGE_ROWS },
  ]);
});

test("empty pages of a search are read on, until there are rows or the end", async () => {
  const { model, asked } = gateway({ error: "x" }, { items: [], next_cursor: "c-1" }, { items: [], next_cursor: "c-2" }, { items: runs(1), next_cursor: "c-3" }, { items: [], next_cursor: null });

  await model.loadMore();
  expect([model.list.order, asked.length, model.isEmpty]).toEqual([["run-0"], 3, false]);
  await model.loadMore();

  expect([model.list.order, asked.length]).toEqual([["run-0"], 4]);
});

test("changes are looked for in all statuses, so that runs are seen to leave the filter", async () => {
  const left = { ...runs(1, 0, "COMPLETED")[0], version: 2 } as Run;
  const { model, asked } = gateway({ status: "RUNNING", tag: "t" }, { items: runs(1, 0, "RUNNING"), next_cursor: null, total: 1 }, { items: [{ ...left, updated_at: 20_000 }] }, { items: [left] }, { items: [], total: 0 });
  await model.loadMore();

  await model.poll();

  expect(asked[1]).toEqual({ tag: "t", cursor: "", limit: 1 });
  expect(asked[2]).toEqual({ tag: "t", updated_after: 19_995, cursor: "", limit: PAGE_ROWS });
  expect(model.list.at(0)).toMatchObject({ status: "COMPLETED" });
  expect(model.total).toBe(0);
});

test("without a change a look is one request and no count", async () => {
  const { model, asked } = gateway({}, { items: runs(3), next_cursor: null, total: 3 }, { items: runs(3), next_cursor: null });
  await model.loadMore();

  await model.poll();

  expect(asked).toHaveLength(2);
  expect(model.total).toBe(3);
});

test("new runs wait while rows may not move, and come by themselves when they may", async () => {
  const { model } = gateway({}, { items: runs(2, 5), next_cursor: null }, { items: runs(1, 1) }, { items: runs(1, 0) });
  await model.loadMore();

  await model.poll();
  expect([model.list.order, model.list.waiting.size]).toEqual([["run-5", "run-6"], 1]);
  model.mayMove = () => true;
  await model.poll();

  expect(model.list.order).toEqual(["run-0", "run-1", "run-5", "run-6"]);
});

test("more changes than can be kept are dropped, and the list is read again on demand", async () => {
  const page = (nth: number): Page => ({ items: runs(PAGE_ROWS, 1000 + nth * PAGE_ROWS), next_cursor: `c-${nth}` });
  const many = Array.from({ length: MAX_CHANGE_PAGES }, (_, nth) => page(nth));
  const { model, asked } = gateway({}, { items: runs(1), next_cursor: null }, ...many, { items: runs(2, 70), next_cursor: "n" });
  await model.loadMore();

  await model.poll();
  expect([asked.length, model.isBehind, model.list.waiting.size]).toEqual([1 + MAX_CHANGE_PAGES, true, 0]);
  await model.showWaiting();

  expect([model.list.order, model.isBehind, model.hasMore]).toEqual([["run-70", "run-71"], false, true]);
});

test("a long list is read again instead of growing at the top without end", async () => {
  const pages = Array.from({ length: MAX_WAITING / PAGE_ROWS + 1 }, (_, nth): Page => ({ items: runs(PAGE_ROWS, 100 + nth * PAGE_ROWS), next_cursor: `c-${nth}` }));
  const { model } = gateway({}, ...pages, { items: runs(1) }, { items: runs(3), next_cursor: "n" });
  for (const _ of pages) await model.loadMore();
  model.mayMove = () => true;

  await model.poll();

  expect(model.list.order).toEqual(["run-0", "run-1", "run-2"]);
});

test("rows stay when the gateway is away, and loading goes on when it is back", async () => {
  const { model } = gateway({}, { items: runs(2, 5), next_cursor: "c" }, AWAY, AWAY, { items: [] }, { items: runs(1, 7), next_cursor: null });
  await model.loadMore();

  await model.loadMore();
  expect([model.problem?.status, model.list.order.length]).toEqual([503, 2]);
  await model.poll();
  expect(model.problem?.status).toBe(503);
  await model.poll();
  expect(model.problem).toBeNull();
  await model.loadMore();

  expect(model.list.order).toEqual(["run-5", "run-6", "run-7"]);
});

test("a first page that failed is read by the next look", async () => {
  const { model } = gateway({}, AWAY, { items: runs(1), next_cursor: null });

  await model.loadMore();
  expect([model.isStarted, model.problem?.status]).toEqual([false, 503]);
  await model.poll();

  expect([model.isStarted, model.problem, model.list.order]).toEqual([true, null, ["run-0"]]);
});

test("a page that was on its way when the list was read again does not get into the new one", async () => {
  let answerOld = (_: Page): void => undefined;
  const answers = [
    Promise.resolve<Page>({ items: runs(1, 5), next_cursor: "c-1" }),
    new Promise<Page>((resolve) => (answerOld = resolve)),
    Promise.resolve<Page>({ items: runs(1), next_cursor: "n-1" }),
  ];
  const model = new RunsModel({}, async () => await (answers.shift() as Promise<Page>));
  await model.loadMore();

  const old = model.loadMore();
  await model.reload();
  answerOld({ items: runs(1, 6), next_cursor: null });
  await old;

  expect([model.list.order, model.hasMore]).toEqual([["run-0"], true]);
});
