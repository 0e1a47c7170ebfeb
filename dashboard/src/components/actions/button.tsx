// The button of an action: absent unless the gateway allows actions on the page, and disabled with the reason where
// the caller's scopes do not cover it.

import { may } from "../../api/session";
import { page } from "../../page";
import { t } from "../../texts";
import { ask, type Action } from "./host";

export function ActionButton<T>({ label, scope, action, isSmall = false }: { label: string; scope: string; action: () => Action<T>; isSmall?: boolean }) {
  if (!page.hasActions) return null;
  const refused = may(scope) ? null : t.value.actions.missingScope(scope);
  // Not `disabled`, which would hide the reason from keyboards and screen readers.
  return (
    <button type="button" class={isSmall ? "small" : undefined} aria-disabled={refused ? true : undefined} title={refused ?? undefined} onClick={() => ask(action(), refused)}>
      {label}
      {refused && <span class="visually-hidden"> ({refused})</span>}
    </button>
  );
}
