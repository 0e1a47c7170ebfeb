// A slider over the life of a run: shows it as it was at any moment.

import { now } from "../../clock";
import { duration, utcTime } from "../../format";
import { place, setQuery } from "../../router";
import { t } from "../../texts";
import { exactTime } from "../../components/time";
import { isOver, type TabProps } from "./model";

const STEPS = 1000;

/** Shows the run as it was: `at` is a version, or unix seconds with a decimal point. */
export function setMoment(at: string | null): void {
  const query = new URLSearchParams(place.peek().query);
  if (at === null) query.delete("at");
  else query.set("at", at);
  setQuery(query);
}

/** Rounded up to a millisecond: the first moment is not before the run. */
function momentText(at: number): string {
  return (Math.ceil(at * 1000) / 1000).toFixed(3);
}

export function MomentSlider({ run, shown }: TabProps) {
  const texts = t.value.run.moment;
  const from = run.submitted_at ?? run.updated_at;
  const to = Math.max(isOver(run) ? (run.end_time ?? run.updated_at) : now.value, from);
  const span = to - from;
  if (span <= 0) return null;
  const given = place.value.query.get("at");
  // A version has no decimal point: its place is the time of the state that it names.
  const typed = Number(given);
  const at = given === null ? to : given.includes(".") && Number.isFinite(typed) ? typed : shown.updated_at;
  const step = Math.min(STEPS, Math.max(0, Math.round(((at - from) / span) * STEPS)));
  return (
    <label class="run-moment">
      <span>{texts.label}</span>
      <input
        type="range"
        min={0}
        max={STEPS}
        value={step}
        aria-valuetext={exactTime(at)}
        onInput={(event) => {
          const chosen = Number(event.currentTarget.value);
          setMoment(chosen >= STEPS ? null : momentText(from + (span * chosen) / STEPS));
        }}
      />
      <output class="number" title={utcTime(at)}>
        +{duration(Math.max(0, at - from))}
      </output>
    </label>
  );
}
