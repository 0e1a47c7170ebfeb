// The lines of the whole log that a search or a filter takes, found by the gateway part by part.

import { lowerBound } from "./lines";

export interface MatchesPage {
  readonly numbers: readonly number[];
  readonly next_token: string;
  readonly complete: boolean;
  readonly scanned_to: number;
  readonly lines: number;
}

export interface Found {
  readonly numbers: readonly number[];
  readonly scannedTo: number;
  readonly lines: number;
  /** Whether all that is stored has been searched. */
  readonly isDone: boolean;
}

export const NOTHING: Found = { numbers: [], scannedTo: 0, lines: 0, isDone: false };

export class MatchFinder {
  private readonly numbers: number[] = [];
  private token: string | undefined;
  private isReading = false;
  private isComplete = false;
  private lines = 0;
  private scannedTo = 0;

  constructor(
    private readonly read: (token: string | undefined) => Promise<MatchesPage>,
    private readonly onFound: (found: Found) => void,
    private readonly onProblem: (error: unknown) => void,
  ) {}

  /** Searches what is stored, from where the last search ended; `lines`: as many are stored now. */
  async search(lines = 0): Promise<void> {
    this.lines = Math.max(this.lines, lines);
    if (this.isReading) return;
    this.isReading = true;
    try {
      while (this.token === undefined || (!this.isComplete && this.scannedTo < this.lines)) {
        const page = await this.read(this.token);
        for (const number of page.numbers) this.numbers.push(number);
        this.token = page.next_token;
        this.scannedTo = page.scanned_to;
        this.isComplete = page.complete;
        this.lines = Math.max(this.lines, page.lines);
        const isDone = page.complete || page.scanned_to >= this.lines;
        // A new array, because it is compared by identity; copying is cheap beside a request.
        this.onFound({ numbers: this.numbers.slice(), scannedTo: page.scanned_to, lines: this.lines, isDone });
      }
    } catch (error) {
      this.onProblem(error);
    } finally {
      this.isReading = false;
    }
  }
}

/** The match to go to: the next one behind a line or before it, around the ends. */
export function matchFrom(numbers: readonly number[], line: number, direction: 1 | -1): number | null {
  if (numbers.length === 0) return null;
  const index = direction === 1 ? lowerBound(numbers, line + 1) : lowerBound(numbers, line) - 1;
  return numbers.at(index === numbers.length ? 0 : index) ?? null;
}

/** Where a text is in a line, as the gateway finds it: in any case, unless the text has an upper-case letter. */
export function occurrences(line: string, wanted: string, most = 1000): number[] {
  if (wanted === "") return [];
  const isExact = wanted !== wanted.toLowerCase();
  const lower = line.toLowerCase();
  // Lower case of some letters is longer: then positions would not fit, and only the same case is marked.
  const text = isExact || lower.length !== line.length ? line : lower;
  const found: number[] = [];
  for (let at = text.indexOf(wanted); at >= 0 && found.length < most; at = text.indexOf(wanted, at + wanted.length)) found.push(at);
  return found;
}
