// A table that becomes a list of cards where the page is narrow.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { t } from "../texts";
import "./data-table.css";

export interface Column<T> {
  readonly key: string;
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  readonly isNumber?: boolean;
  /** Stays on one line. */
  readonly isShort?: boolean;
  /** Names the row. */
  readonly isHead?: boolean;
  /** The field by which the table can be sorted. */
  readonly sortBy?: string;
}

export interface Sorting {
  readonly field: string;
  readonly isDescending: boolean;
  onSort(field: string): void;
}

// What is shown at once: a browser lays out a few thousand cells without a pause.
const FIRST_ROWS = 200;

export function DataTable<T>({
  caption,
  columns,
  rows,
  keyOf,
  isMarked,
  sorting,
}: {
  caption: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string | number;
  /** Rows that are less important, such as hidden ones. */
  isMarked?: (row: T) => boolean;
  sorting?: Sorting;
}) {
  const [most, setMost] = useState(FIRST_ROWS);
  const left = rows.length - most;
  // Roles are written out: browsers drop those of a table that is not displayed as one.
  return (
    <>
      <div class="table-scroll">
        <table class="data-table" role="table">
          <caption class="visually-hidden">{caption}</caption>
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <ColumnHead key={column.key} column={column} sorting={sorting} />
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {rows.slice(0, most).map((row) => (
              <tr key={keyOf(row)} role="row" class={isMarked?.(row) ? "marked" : undefined}>
                {columns.map((column) =>
                  column.isHead ? (
                    <th key={column.key} scope="row" role="rowheader" class={column.isNumber ? "number" : undefined} data-label={column.title}>
                      <div class="cell">{column.cell(row)}</div>
                    </th>
                  ) : (
                    <td key={column.key} role="cell" class={column.isNumber ? "number" : column.isShort ? "short" : undefined} data-label={column.title}>
                      <div class="cell">{column.cell(row)}</div>
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {left > 0 && (
        <p class="table-more">
          <button type="button" onClick={() => setMost(most + FIRST_ROWS)}>
            {t.value.shell.showMoreRows(left)}
          </button>
        </p>
      )}
    </>
  );
}

function ColumnHead<T>({ column, sorting }: { column: Column<T>; sorting: Sorting | undefined }) {
  const shared = { scope: "col", role: "columnheader", class: column.isNumber ? "number" : undefined } as const;
  const field = column.sortBy;
  if (!sorting || field === undefined) return <th {...shared}>{column.title}</th>;
  const isSorted = sorting.field === field;
  return (
    <th {...shared} aria-sort={isSorted ? (sorting.isDescending ? "descending" : "ascending") : undefined}>
      <button type="button" class="sort" onClick={() => sorting.onSort(field)}>
        {column.title} <span aria-hidden="true">{isSorted ? (sorting.isDescending ? "↓" : "↑") : "↕"}</span>
      </button>
    </th>
  );
}
