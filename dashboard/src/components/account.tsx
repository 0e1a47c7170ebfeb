// Who is signed in: name, tenant and scopes, and the way out.

import { useState } from "preact/hooks";
import { caller, credential, signOut, type Caller } from "../api/session";
import { t } from "../texts";
import { Dialog } from "./dialog";
import { Name } from "./name";
import { Time } from "./time";

export function Account() {
  const [isOpen, setOpen] = useState(false);
  const texts = t.value.shell.signIn;
  if (credential.value === null) return null;
  const known = caller.value;
  return (
    <div class="account">
      {known && (
        <button type="button" class="quiet account-name" aria-label={texts.account(known.client_id)} onClick={() => setOpen(true)}>
          <Name text={known.client_id} most={40} />
        </button>
      )}
      <button type="button" class="quiet" onClick={() => signOut()}>
        {texts.signOut}
      </button>
      {isOpen && known && (
        <Dialog title={texts.kinds[known.kind]} onClose={() => setOpen(false)}>
          <AccountFacts known={known} />
        </Dialog>
      )}
    </div>
  );
}

function AccountFacts({ known }: { known: Caller }) {
  const texts = t.value.shell.signIn;
  return (
    <dl class="facts">
      <dt>{texts.who}</dt>
      <dd>
        <Name text={known.client_id} />
      </dd>
      <dt>{texts.tenant}</dt>
      <dd>{known.tenant_id === null ? <span class="muted">{texts.noTenant}</span> : <Name text={known.tenant_id} />}</dd>
      <dt>{texts.scopes}</dt>
      <dd>
        {known.scopes.length === 0 ? (
          <span class="muted">{texts.noScopes}</span>
        ) : (
          <ul class="tag-list">
            {known.scopes.map((scope) => (
              <li key={scope} class="tag">
                {scope}
              </li>
            ))}
          </ul>
        )}
      </dd>
      {known.audiences && (
        <>
          <dt>{texts.audiences}</dt>
          <dd>
            <Name text={known.audiences.join(", ")} />
          </dd>
        </>
      )}
      <dt>{texts.expires}</dt>
      <dd>{known.expires_at === null ? <span class="muted">{texts.neverExpires}</span> : <Time at={known.expires_at} />}</dd>
    </dl>
  );
}
