// A JSON value to read: closed where it is large, with search, copy and download.

import { useMemo, useState } from "preact/hooks";
import { bytes, number } from "../../format";
import { t } from "../../texts";
import { CopyButton } from "../copy";
import { Dialog } from "../dialog";
import { cut, LongText, visible } from "../name";
import { VirtualList } from "../virtual-list";
import { keyOf, MAX_FOUND, openKey, opening, type Row, rowsOf, search } from "./rows";
import "./json.css";

const ROW_HEIGHT = 26;
/** More rows are in a scrolling list of their own. */
const PLAIN_ROWS = 100;
const INDENT_REM = 1.1;
/** Searching in a small value is no help. */
const SEARCH_FROM_ROWS = 12;

export function JsonView({ value, fileName }: { value: unknown; fileName: string }) {
  const texts = t.value.run.json;
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [sought, setSought] = useState("");
  const [current, setCurrent] = useState(0);
  const [whole, setWhole] = useState<string | null>(null);
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? "null", [value]);
  const found = useMemo(() => (sought ? search(value, sought) : []), [value, sought]);
  const here = found[current];
  const open = useMemo(() => (here ? opening(value, here, opened) : opened), [value, here, opened]);
  const rows = useMemo(() => rowsOf(value, open), [value, open]);
  const hereKey = here && keyOf(here);
  const isSearchable = sought !== "" || text.length > 2000 || rows.length >= SEARCH_FROM_ROWS;

  const toggle = (row: Row): void => setOpened(new Map([...open, [openKey(row), !row.isOpen]]));
  const go = (by: number): void => setCurrent(found.length === 0 ? 0 : (current + by + found.length) % found.length);
  const draw = (row: Row) => (
    <JsonRow row={row} isHere={row.kind !== "range" && hereKey === keyOf(row.path)} onToggle={() => toggle(row)} onWhole={setWhole} />
  );

  return (
    <div class="json">
      <div class="json-tools">
        {isSearchable && (
          <>
            <input
              type="search"
              placeholder={texts.search}
              aria-label={texts.search}
              value={sought}
              onInput={(event) => {
                setSought(event.currentTarget.value);
                setCurrent(0);
              }}
              onKeyDown={(event) => {
                if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
              }}
            />
            {sought && (
              <span class="muted small" role="status">
                {found.length === 0 ? texts.none : texts.found(number(current + 1), number(found.length) + (found.length === MAX_FOUND ? "+" : ""))}
              </span>
            )}
          </>
        )}
        <span class="spring" />
        <span class="muted small">{bytes(text.length)}</span>
        <CopyButton text={text} />
        <button type="button" class="quiet" onClick={() => download(text, fileName)}>
          {texts.download}
        </button>
      </div>
      {rows.length <= PLAIN_ROWS ? (
        // Wide values are scrolled to, also with the keyboard.
        <ul class="json-rows" tabIndex={0} aria-label={texts.rows}>
          {rows.map((row) => (
            <li key={`${row.kind}${keyOf(row.path)}${row.kind === "range" ? row.text : ""}`}>{draw(row)}</li>
          ))}
        </ul>
      ) : (
        <VirtualList
          class="json-rows json-long"
          label={texts.rows}
          count={rows.length}
          rowHeight={ROW_HEIGHT}
          shown={hereKey === undefined ? -1 : rows.findIndex((row) => row.kind !== "range" && keyOf(row.path) === hereKey)}
        >
          {(at) => draw(rows[at]!)}
        </VirtualList>
      )}
      {whole !== null && (
        <Dialog title={texts.text} onClose={() => setWhole(null)}>
          <CopyButton text={whole} />
          <LongText text={whole} />
        </Dialog>
      )}
    </div>
  );
}

const NAME_CHARS = 80;

function JsonRow({ row, isHere, onToggle, onWhole }: { row: Row; isHere: boolean; onToggle: () => void; onWhole: (text: string) => void }) {
  const texts = t.value.run.json;
  const name = row.name === null ? null : <bdi class="json-name">{visible(cut(row.name, NAME_CHARS))}</bdi>;
  const value = <bdi class={`json-value json-${row.kind}`}>{row.text}</bdi>;
  return (
    <div class={`json-row${isHere ? " json-here" : ""}`} style={{ paddingInlineStart: `${row.depth * INDENT_REM}rem` }}>
      {row.size > 0 ? (
        <button type="button" class="json-toggle" aria-expanded={row.isOpen} onClick={onToggle}>
          <span aria-hidden="true">{row.isOpen ? "▾" : "▸"}</span>
          {name}
          {value}
        </button>
      ) : (
        <span class="json-leaf">
          {name}
          {value}
          {row.whole !== undefined && (
            <button type="button" class="link small" onClick={() => onWhole(row.whole!)}>
              {texts.whole(bytes(row.whole.length))}
            </button>
          )}
        </span>
      )}
    </div>
  );
}

function download(text: string, fileName: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  // Names of tasks are part of it: nothing but plain characters reaches the file system.
  link.download = `${fileName.replace(/[^A-Za-z0-9_.-]+/g, "_").slice(0, 100)}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}
