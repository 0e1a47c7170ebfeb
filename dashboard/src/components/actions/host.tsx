// The dialog of the action that is being confirmed. One for the page: what it was opened from may disappear meanwhile.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { place } from "../../router";
import { t } from "../../texts";
import { Dialog } from "../dialog";
import { Notice, ProblemNotice } from "../notice";
import { confirmation } from "./confirmation";
import "./actions.css";

export interface Action<T = unknown> {
  /** What is asked: `Cancel this run?` */
  readonly title: string;
  /** The object, by name and id. */
  readonly object: ComponentChildren;
  readonly explanation: string;
  readonly submit: string;
  readonly isDangerous?: boolean;
  /** Fields; locked while a request is under way or its outcome is unknown. */
  fields?(isLocked: boolean): ComponentChildren;
  /** Why it cannot be sent yet: shown instead of sending. */
  mistake?(): string | null;
  send(key: string): Promise<T>;
  /** What has happened. */
  done(outcome: T): ComponentChildren;
  /** After success: reads again what has changed. */
  onDone?(outcome: T): void;
}

const open = signal<{ readonly action: Action; readonly refused: string | null } | null>(null);

/** Asks for a confirmation; with `refused` it only says why the action is not possible. */
export function ask<T>(action: Action<T>, refused: string | null = null): void {
  open.value = { action: action as Action, refused };
}

export function ConfirmationHost() {
  const shown = open.value;
  const path = place.value.path.join("/");
  useEffect(
    () => () => {
      // What it asks about is no longer in sight.
      open.value = null;
    },
    [path],
  );
  if (shown === null) return null;
  const close = (): void => {
    if (open.peek() === shown) open.value = null;
  };
  return (
    <Dialog key={shown.action.title} title={shown.action.title} onClose={close}>
      {shown.refused === null ? (
        <Confirm action={shown.action} />
      ) : (
        <>
          <div class="action-object">{shown.action.object}</div>
          <Notice kind="warning">
            <p>{shown.refused}</p>
          </Notice>
        </>
      )}
    </Dialog>
  );
}

function Confirm({ action }: { action: Action }) {
  const texts = t.value.actions;
  const asked = useMemo(
    () =>
      confirmation(async (key) => {
        const outcome = await action.send(key);
        action.onDone?.(outcome);
        return outcome;
      }),
    [action],
  );
  const mistake = useMemo(() => signal<string | null>(null), [action]);
  const phase = asked.phase.value;
  const problem = asked.problem.value;
  if (phase === "done") {
    return (
      <>
        <Notice kind="success">{action.done(asked.outcome.value)}</Notice>
        <div class="dialog-buttons">
          <CloseButton hasFocus />
        </div>
      </>
    );
  }
  const submit = (): void => {
    mistake.value = action.mistake?.() ?? null;
    if (mistake.value === null) void asked.submit();
  };
  const isSending = phase === "sending";
  return (
    <form
      class="action-form"
      method="dialog"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <div class="action-object">{action.object}</div>
      <p>{action.explanation}</p>
      {action.fields?.(isSending || phase === "unknown")}
      {mistake.value !== null && (
        <Notice kind="error">
          <p>{mistake.value}</p>
        </Notice>
      )}
      {problem && !isSending && (
        <>
          <ProblemNotice problem={problem} />
          {phase === "unknown" && <p>{texts.unknown}</p>}
        </>
      )}
      <div class="dialog-buttons">
        <CloseButton />
        <button type="submit" class={action.isDangerous ? "danger" : "primary"} aria-disabled={isSending ? true : undefined}>
          {isSending ? texts.sending : phase === "unknown" ? t.value.shell.retry : action.submit}
        </button>
      </div>
    </form>
  );
}

/** Through the element: it gives the focus back to where the dialog was opened. */
function CloseButton({ hasFocus = false }: { hasFocus?: boolean }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (hasFocus) button.current?.focus();
  }, []);
  return (
    <button ref={button} type="button" onClick={() => button.current?.closest("dialog")?.close()}>
      {t.value.shell.close}
    </button>
  );
}
