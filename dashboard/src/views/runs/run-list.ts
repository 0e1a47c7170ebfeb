// The rows of the list and how live changes reach them. A row that is loaded changes in its place; what is new waits
// until the visitor wants it, so that nothing moves while it is read.

import type { Schemas } from "../../api/client";

export type Run = Schemas["RunSummary"];

/** Clocks of the machines that change runs may differ by so much. */
export const OVERLAP_SEC = 5;

export class RunList {
  /** The ids in the order of the rows. */
  order: readonly string[] = [];
  /** Runs that wait to be shown, by id. */
  readonly waiting = new Map<string, Run>();
  private readonly known = new Map<string, Run>();
  /** Loaded rows that have changed since they were put in order. */
  private readonly moved = new Set<string>();
  private newest: number | null = null;
  /** The last change of the last row, while there are older ones to read; null when there are none. */
  private readTo: number | null = null;

  /** `fits`: whether a changed run belongs into the list; one that is shown already stays either way. */
  constructor(private readonly fits: (run: Run) => boolean = () => true) {}

  get(id: string): Run | undefined {
    return this.known.get(id);
  }

  at(index: number): Run | undefined {
    return this.known.get(this.order[index] ?? "");
  }

  /** From when on changes are asked for; null before anything was seen. */
  get changedAfter(): number | null {
    return this.newest === null ? null : this.newest - OVERLAP_SEC;
  }

  /** Notes a change elsewhere in the list, which moves `changedAfter`. */
  note(updatedAt: number): void {
    this.newest = Math.max(this.newest ?? updatedAt, updatedAt);
  }

  /** The next page of the list, at its end. A run that is there already only takes its newer state. */
  append(runs: readonly Run[], isLast = false): void {
    const added: string[] = [];
    for (const run of runs) {
      this.note(run.updated_at);
      this.readTo = Math.min(this.readTo ?? run.updated_at, run.updated_at);
      if (this.known.has(run.run_id)) this.replace(run);
      else if (!this.waiting.has(run.run_id)) {
        this.known.set(run.run_id, run);
        added.push(run.run_id);
      }
    }
    if (isLast) this.readTo = null;
    if (added.length > 0) this.order = [...this.order, ...added];
  }

  /** Changes since the last look; true if any of them is news. */
  change(runs: readonly Run[]): boolean {
    let isNews = false;
    for (const run of runs) {
      this.note(run.updated_at);
      if (this.known.has(run.run_id)) isNews = this.replace(run) || isNews;
      else if (!isNewer(run, this.waiting.get(run.run_id)) || this.isUnread(run)) continue;
      else if (this.fits(run)) {
        this.waiting.set(run.run_id, run);
        isNews = true;
      } else isNews = this.waiting.delete(run.run_id) || isNews;
    }
    return isNews;
  }

  /** Puts what waits, and the rows that have changed, where they belong: last change first. */
  showWaiting(): void {
    if (this.waiting.size === 0) return;
    for (const [id, run] of this.waiting) this.known.set(id, run);
    const first = [...this.waiting.keys(), ...[...this.moved].filter((id) => this.isFitting(id))];
    const taken = new Set(first);
    first.sort((a, b) => this.compare(a, b));
    this.order = [...first, ...this.order.filter((id) => !taken.has(id))];
    this.waiting.clear();
    this.moved.clear();
  }

  /** Whether it is no news but a row of a later page. */
  private isUnread(run: Run): boolean {
    return this.readTo !== null && run.updated_at < this.readTo;
  }

  private isFitting(id: string): boolean {
    const run = this.known.get(id);
    return run !== undefined && this.fits(run);
  }

  private compare(a: string, b: string): number {
    const [one, other] = [this.known.get(a)?.updated_at ?? 0, this.known.get(b)?.updated_at ?? 0];
    return other - one || (a < b ? 1 : -1);
  }

  private replace(run: Run): boolean {
    if (!isNewer(run, this.known.get(run.run_id))) return false;
    this.known.set(run.run_id, run);
    this.moved.add(run.run_id);
    return true;
  }
}

function isNewer(run: Run, than: Run | undefined): boolean {
  return than === undefined || (run.version ?? 0) > (than.version ?? 0);
}
