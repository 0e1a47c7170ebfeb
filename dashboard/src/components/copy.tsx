// Copies a text to the clipboard and says whether it worked.

import { useState } from "preact/hooks";
import { t } from "../texts";

const SHOWN_MS = 2000;

export function CopyButton({ text, label }: { text: string; label?: string }) {
  const [outcome, setOutcome] = useState<"" | "copied" | "copyFailed">("");
  const copy = async (): Promise<void> => {
    try {
      // Without TLS or a local address the browser has no clipboard for pages.
      await navigator.clipboard.writeText(text);
      setOutcome("copied");
    } catch {
      setOutcome("copyFailed");
    }
    setTimeout(() => setOutcome(""), SHOWN_MS);
  };
  return (
    <button type="button" class="quiet" onClick={() => void copy()}>
      <span aria-live="polite">{outcome ? t.value.shell[outcome] : (label ?? t.value.shell.copy)}</span>
    </button>
  );
}
