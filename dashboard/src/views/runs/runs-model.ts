// Loads the list page by page and keeps it up to date: docs/how-to/find-runs.md, "Keep a view up to date".

import { asProblem, isAbort, type Problem } from "../../api/problem";
import { type ApiQuery } from "./filters";
import { RunList, type Run } from "./run-list";

export const PAGE_ROWS = 200;
/** Changes of one look, in pages; beyond them the list is read again. */
export const MAX_CHANGE_PAGES = 10;
/** More rows than these are not added at the top: the list starts again with the newest. */
export const MAX_WAITING = 1000;

export interface Page {
  readonly items: readonly Run[];
  readonly next_cursor?: string | null | undefined;
  readonly total?: number | null | undefined;
}

export interface PageQuery extends ApiQuery {
  readonly cursor: string;
  readonly limit: number;
  readonly updated_after?: number;
}

export type ReadPage = (query: PageQuery, signal: AbortSignal) => Promise<Page>;

/** One reading of the list. A later one begins with another, so that an answer on its way changes the old one only. */
interface Reading {
  readonly list: RunList;
  /** Of the next page: empty before the first, null behind the last. */
  cursor: string | null;
  total: number | null;
}

export class RunsModel {
  isLoading = false;
  /** Whether more has changed than is kept: the newest runs are then read again on demand. */
  isBehind = false;
  problem: Problem | null = null;
  /** Whether rows may move at present. */
  mayMove: () => boolean = () => false;
  private reading: Reading;
  private readonly stopped = new AbortController();
  private readonly broad: ApiQuery;

  /** Draws what has changed; the present component sets it. */
  changed: () => void = () => undefined;
  /** Where the table was left. */
  readonly left: { scrollTop: number; activeId: string | null } = { scrollTop: 0, activeId: null };

  constructor(
    private readonly query: ApiQuery,
    private readonly read: ReadPage,
  ) {
    this.reading = this.newReading();
    // Without the status, so that runs that leave it are seen too.
    const { status: _, ...broad } = query;
    this.broad = broad;
  }

  get list(): RunList {
    return this.reading.list;
  }

  /** The number of all matching runs, where the gateway knows it. */
  get total(): number | null {
    return this.reading.total;
  }

  get isStarted(): boolean {
    return this.reading.cursor !== "";
  }

  get hasMore(): boolean {
    return this.reading.cursor !== null;
  }

  get isEmpty(): boolean {
    return !this.hasMore && this.list.order.length === 0;
  }

  stop(): void {
    this.stopped.abort();
  }

  /** Reads on until there are new rows or the end: pages of a search by error may be empty. */
  async loadMore(): Promise<void> {
    if (this.isLoading || !this.hasMore) return;
    this.isLoading = true;
    this.changed();
    await this.guarded(async () => {
      const { reading } = this;
      const before = reading.list.order.length;
      while (reading.cursor !== null && reading.list.order.length === before) await this.readPage(reading);
    });
    this.isLoading = false;
    this.changed();
  }

  /** Reads the list again from its newest run; the old rows stay until the new ones are there. */
  async reload(): Promise<void> {
    await this.guarded(async () => {
      const reading = this.newReading();
      await this.readPage(reading);
      this.reading = reading;
      this.isBehind = false;
    });
    this.changed();
  }

  /** Looks for changes. */
  async poll(): Promise<void> {
    if (!this.isStarted) return await this.loadMore();
    await this.guarded(async () => {
      const { reading } = this;
      const isNews = await this.readChanges(reading.list);
      if (isNews && reading.total !== null) reading.total = (await this.page({ ...this.query, cursor: "", limit: 1 })).total ?? null;
    });
    if (this.list.waiting.size > MAX_WAITING) {
      this.isBehind = true;
      this.list.waiting.clear();
    }
    if ((this.isBehind || this.list.waiting.size > 0) && this.mayMove()) await this.showWaiting();
    else this.changed();
  }

  async showWaiting(): Promise<void> {
    if (this.isBehind || this.list.order.length > MAX_WAITING) return await this.reload();
    this.list.showWaiting();
    this.changed();
  }

  private newReading(): Reading {
    const { status } = this.query;
    return { list: new RunList((run) => status === undefined || run.status === status), cursor: "", total: null };
  }

  private async readPage(reading: Reading): Promise<void> {
    const isFirst = reading.cursor === "";
    const [page, newest] = await Promise.all([
      this.page({ ...this.query, cursor: reading.cursor ?? "", limit: PAGE_ROWS }),
      isFirst && this.query.status !== undefined ? this.page({ ...this.broad, cursor: "", limit: 1 }) : null,
    ]);
    for (const run of newest?.items ?? []) reading.list.note(run.updated_at);
    reading.cursor = page.next_cursor ?? null;
    reading.list.append(page.items, reading.cursor === null);
    if (isFirst) reading.total = page.total ?? null;
  }

  private async readChanges(list: RunList): Promise<boolean> {
    const after = list.changedAfter;
    const since = after === null ? {} : { updated_after: after };
    let isNews = false;
    let cursor: string | null = "";
    for (let pages = 0; cursor !== null; pages += 1) {
      if (pages === (after === null ? 1 : MAX_CHANGE_PAGES)) {
        this.isBehind ||= after !== null;
        break;
      }
      const page: Page = await this.page({ ...this.broad, ...since, cursor, limit: PAGE_ROWS });
      isNews = list.change(page.items) || isNews;
      cursor = page.next_cursor ?? null;
    }
    return isNews;
  }

  private async page(query: PageQuery): Promise<Page> {
    return await this.read(query, this.stopped.signal);
  }

  private async guarded(act: () => Promise<void>): Promise<void> {
    try {
      await act();
      this.problem = null;
    } catch (error) {
      if (!isAbort(error)) this.problem = asProblem(error);
    }
  }
}
