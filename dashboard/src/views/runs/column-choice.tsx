// Which columns are shown; kept in this browser.

import { useState } from "preact/hooks";
import { Dialog } from "../../components/dialog";
import { t } from "../../texts";
import { COLUMNS, DEFAULT_COLUMNS, keepColumns, type Column } from "./columns";

export function ColumnChoice({ columns, onChange }: { columns: readonly Column[]; onChange: (columns: readonly Column[]) => void }) {
  const [isOpen, setOpen] = useState(false);
  const texts = t.value.runs;
  const choose = (column: Column, isShown: boolean): void => {
    const chosen = COLUMNS.filter((each) => (each === column ? isShown : columns.includes(each)));
    keepColumns(chosen);
    onChange(chosen);
  };
  return (
    <>
      <button type="button" class="quiet runs-choose" onClick={() => setOpen(true)}>
        {texts.chooseColumns}
      </button>
      {isOpen && (
        <Dialog title={texts.chooseColumnsTitle} onClose={() => setOpen(false)}>
          <ul class="runs-columns">
            {COLUMNS.map((column) => (
              <li key={column}>
                <label>
                  <input
                    type="checkbox"
                    checked={columns.includes(column)}
                    // The link to the run stays.
                    disabled={column === "id" || (columns.length === 2 && columns.includes(column))}
                    onChange={(event) => choose(column, event.currentTarget.checked)}
                  />
                  {texts.columns[column]}
                </label>
              </li>
            ))}
          </ul>
          <button
            type="button"
            onClick={() => {
              keepColumns(null);
              onChange(DEFAULT_COLUMNS);
            }}
          >
            {texts.defaultColumns}
          </button>
        </Dialog>
      )}
    </>
  );
}
