// The filters in use, each with a button to remove it, and the time range.

import { useState } from "preact/hooks";
import { Dialog } from "../../components/dialog";
import { Name } from "../../components/name";
import { statusText } from "../../components/status";
import { amount, localTime, seconds } from "../../format";
import { t } from "../../texts";
import { chipsOf, lengthOf, NO_FILTERS, PRESETS, secondsOf, without, type Chip, type Filters } from "./filters";

/** The time of a filter, which may be unix seconds, a date or RFC 3339; what cannot be read is shown as it is. */
function timeText(time: string): string {
  const at = /^-?[0-9]+(\.[0-9]+)?$/.test(time) ? Number(time) : seconds(time);
  return at === null ? time : localTime(at);
}

function sinceText(since: string): string {
  const length = lengthOf(since);
  return t.value.runs.filters.since(length ? amount(length.value, length.unit.name) : since);
}

function valueOf(chip: Chip): string {
  const texts = t.value.runs.filters;
  switch (chip.kind) {
    case "status":
      return statusText(chip.value);
    case "since":
      return sinceText(chip.value);
    case "range":
      if (chip.after === undefined) return texts.before(timeText(chip.before ?? ""));
      if (chip.before === undefined) return texts.after(timeText(chip.after));
      return texts.range(timeText(chip.after), timeText(chip.before));
    default:
      return chip.value;
  }
}

export function chipText(chip: Chip): string {
  return `${t.value.runs.filters.kinds[chip.kind]}: ${valueOf(chip)}`;
}

export function ChipButton({ chip, onRemove }: { chip: Chip; onRemove: () => void }) {
  const texts = t.value.runs.filters;
  return (
    <button type="button" class="runs-chip" aria-label={texts.remove(chipText(chip))} onClick={onRemove}>
      <span class="muted">{texts.kinds[chip.kind]}</span> <Name text={valueOf(chip)} most={60} /> <span aria-hidden="true">×</span>
    </button>
  );
}

export function FilterChips({ filters, onChange }: { filters: Filters; onChange: (filters: Filters) => void }) {
  const chips = chipsOf(filters);
  const texts = t.value.runs.filters;
  if (chips.length === 0) return null;
  return (
    <ul class="runs-chips" aria-label={texts.active}>
      {chips.map((chip) => (
        <li key={chipText(chip)}>
          <ChipButton chip={chip} onRemove={() => onChange(without(filters, chip))} />
        </li>
      ))}
      {chips.length > 1 && (
        <li>
          <button type="button" class="quiet" onClick={() => onChange(NO_FILTERS)}>
            {texts.clear}
          </button>
        </li>
      )}
    </ul>
  );
}

export function TimeRange({ filters, onChange }: { filters: Filters; onChange: (filters: Filters) => void }) {
  const [isAsking, setAsking] = useState(false);
  const texts = t.value.runs.filters;
  const isRange = filters.after !== undefined || filters.before !== undefined;
  const value = isRange ? "range" : (filters.since ?? "");
  const choices: string[] = [...PRESETS];
  if (filters.since !== undefined && !choices.includes(filters.since)) choices.push(filters.since);
  return (
    <>
      <label class="runs-time">
        <span class="muted small">{texts.time}</span>
        <select
          value={value}
          onChange={(event) => {
            const chosen = event.currentTarget.value;
            // The choice is made in the dialog.
            event.currentTarget.value = value;
            if (chosen === "between" || chosen === "range") setAsking(true);
            else onChange({ ...filters, since: chosen || undefined, after: undefined, before: undefined });
          }}
        >
          <option value="">{texts.anyTime}</option>
          {choices.map((since) => (
            <option key={since} value={since}>
              {sinceText(since)}
            </option>
          ))}
          {isRange && <option value="range">{valueOf({ kind: "range", after: filters.after, before: filters.before })}</option>}
          <option value="between">{texts.between}</option>
        </select>
      </label>
      {isAsking && <RangeDialog filters={filters} onChange={onChange} onClose={() => setAsking(false)} />}
    </>
  );
}

/** The text of a `datetime-local` field: the local time without an offset. */
function localField(time: string | undefined): string {
  const at = time === undefined ? null : /^-?[0-9.]+$/.test(time) ? Number(time) : seconds(time);
  if (at === null) return "";
  const date = new Date(at * 1000);
  return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function fromField(text: string): string | undefined {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

function RangeDialog({ filters, onChange, onClose }: { filters: Filters; onChange: (filters: Filters) => void; onClose: () => void }) {
  const texts = t.value.runs.filters;
  const since = filters.since === undefined ? null : secondsOf(filters.since);
  const [after, setAfter] = useState(localField(since === null ? filters.after : String(Date.now() / 1000 - since)));
  const [before, setBefore] = useState(localField(filters.before));
  return (
    <Dialog title={texts.rangeTitle} onClose={onClose}>
      <form
        class="runs-range"
        onSubmit={(event) => {
          event.preventDefault();
          onChange({ ...filters, since: undefined, after: fromField(after), before: fromField(before) });
          onClose();
        }}
      >
        <label>
          {texts.from}
          <input type="datetime-local" step="1" value={after} max={before || undefined} onInput={(event) => setAfter(event.currentTarget.value)} />
        </label>
        <label>
          {texts.until}
          <input type="datetime-local" step="1" value={before} min={after || undefined} onInput={(event) => setBefore(event.currentTarget.value)} />
        </label>
        <p class="muted small">{texts.localTimes}</p>
        <button type="submit" class="primary">
          {texts.apply}
        </button>
      </form>
    </Dialog>
  );
}
