// The lines that the page has of a log, by number: those around what is in sight. Others are read when they come in sight.

export interface Line {
  readonly n: number;
  /** Unix seconds. */
  readonly ts: number;
  readonly task: string | null;
  readonly level: string;
  readonly stream: string;
  readonly message: string;
  readonly attempt: number;
}

export interface LinesPage {
  readonly items: readonly Line[];
}

/** Which line is in a row: all lines, or the numbers of those that a filter takes. */
export type Rows = { readonly total: number } | { readonly numbers: readonly number[] };

export function rowCount(rows: Rows): number {
  return "total" in rows ? rows.total : rows.numbers.length;
}

export function numberAt(rows: Rows, row: number): number {
  return "total" in rows ? row + 1 : (rows.numbers[row] ?? 0);
}

/** The row of a line; of one that is filtered out, the next one. */
export function rowOf(rows: Rows, number: number): number {
  return "total" in rows ? number - 1 : lowerBound(rows.numbers, number);
}

/** The first index whose number is not below the wanted one. */
export function lowerBound(numbers: readonly number[], wanted: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

const MAX_LINES = 20_000;
const MAX_CHARS = 32_000_000;
/** Lines of one request. */
export const PAGE_LINES = 400;

export class LineCache {
  private readonly lines = new Map<number, Line>();
  private chars = 0;
  private nearest = 1;

  get size(): number {
    return this.lines.size;
  }

  get(number: number): Line | undefined {
    return this.lines.get(number);
  }

  put(found: readonly Line[]): void {
    for (const line of found) {
      this.chars += line.message.length - (this.lines.get(line.n)?.message.length ?? 0);
      this.lines.set(line.n, line);
    }
    if (this.lines.size > MAX_LINES || this.chars > MAX_CHARS) this.dropFarthest();
  }

  /** What is in sight stays when others are dropped. */
  keepAround(number: number): void {
    this.nearest = number;
  }

  private dropFarthest(): void {
    const byDistance = [...this.lines.keys()].sort((a, b) => Math.abs(b - this.nearest) - Math.abs(a - this.nearest));
    for (const number of byDistance) {
      if (this.lines.size <= MAX_LINES / 2 && this.chars <= MAX_CHARS / 2) return;
      this.chars -= this.lines.get(number)?.message.length ?? 0;
      this.lines.delete(number);
    }
  }
}

/** Reads the missing lines of the rows in sight, one request at a time: fast scrolling skips what it passes. */
export class LineLoader {
  private wanted: { rows: Rows; first: number; last: number } | null = null;
  private isReading = false;

  constructor(
    private readonly cache: LineCache,
    private readonly read: (fromLine: number, limit: number) => Promise<LinesPage>,
    private readonly onLines: () => void,
    private readonly onProblem: (error: unknown) => void,
  ) {}

  /** Rows from `first` up to `last`, which is not one of them. */
  want(rows: Rows, first: number, last: number): void {
    this.wanted = { rows, first, last };
    if (last > first) this.cache.keepAround(numberAt(rows, (first + last) >> 1));
    if (!this.isReading) void this.run();
  }

  private async run(): Promise<void> {
    this.isReading = true;
    try {
      for (;;) {
        const next = this.missing();
        if (next === null) return;
        const { items } = await this.read(next, PAGE_LINES);
        this.cache.put(items);
        this.onLines();
        // The log was removed, or is shorter than announced: asking again would not help.
        if (this.cache.get(next) === undefined) return;
      }
    } catch (error) {
      this.onProblem(error);
    } finally {
      this.isReading = false;
    }
  }

  private missing(): number | null {
    if (this.wanted === null) return null;
    const { rows, first, last } = this.wanted;
    for (let row = first; row < last; row++) {
      const number = numberAt(rows, row);
      if (this.cache.get(number) !== undefined) continue;
      // On the way up the lines above come with it, else each step would be a request.
      const isUpwards = row === first && this.cache.get(numberAt(rows, last - 1)) !== undefined;
      return isUpwards ? numberAt(rows, Math.max(0, last - PAGE_LINES)) : number;
    }
    return null;
  }
}
