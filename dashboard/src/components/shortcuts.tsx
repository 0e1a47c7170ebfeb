// Keyboard shortcuts of the view in sight, listed with `?`.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../texts";
import { Dialog } from "./dialog";

export interface Shortcut {
  /** Values of `KeyboardEvent.key`: any of them. */
  readonly keys: readonly string[];
  readonly text: string;
  run(event: KeyboardEvent): void;
}

// Of each component that has some: its newest shortcuts.
const active = signal<readonly { readonly current: readonly Shortcut[] }[]>([]);
export const isHelpOpen = signal(false);

function isTyping(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "submit"].includes(target.type);
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Serves these keys as long as the component is shown; not while the visitor types into a field or a dialog is open. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  const newest = useRef(shortcuts);
  newest.current = shortcuts;
  useEffect(() => {
    active.value = [...active.peek(), newest];
    const onKey = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      const found = newest.current.find((one) => one.keys.includes(event.key));
      if (found === undefined) return;
      event.preventDefault();
      found.run(event);
    };
    window.addEventListener("keydown", onKey);
    return () => {
      window.removeEventListener("keydown", onKey);
      active.value = active.peek().filter((each) => each !== newest);
    };
  }, []);
}

export function ShortcutHelp() {
  const all = active.value.flatMap((each) => each.current);
  if (!isHelpOpen.value) return null;
  return (
    <Dialog title={t.value.shell.shortcuts} onClose={() => (isHelpOpen.value = false)}>
      <dl class="shortcuts">
        {all.map((each) => (
          <div key={each.text}>
            <dt>
              {each.keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{each.text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
