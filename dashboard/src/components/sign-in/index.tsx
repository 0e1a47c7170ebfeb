// Asks for an API key or a token where the gateway has access control.

import { useState } from "preact/hooks";
import { refusal, signIn } from "../../api/session";
import { page, type AuthWay } from "../../page";
import { t } from "../../texts";
import { Notice } from "../notice";

export function SignIn() {
  const texts = t.value.shell.signIn;
  const [way, setWay] = useState<AuthWay>(page.authWays[0] ?? "api_key");
  const [secret, setSecret] = useState("");
  const labels: Record<AuthWay, string> = { api_key: texts.apiKey, jwt: texts.token };
  return (
    <form
      class="sign-in"
      onSubmit={(event) => {
        event.preventDefault();
        if (secret.trim()) signIn({ way, secret: secret.trim() });
      }}
    >
      <h1>{texts.title}</h1>
      {refusal.value !== null && (
        <Notice kind="error">
          <p dir="auto">{refusal.value || texts.refused}</p>
        </Notice>
      )}
      {page.authWays.length > 1 && (
        <label>
          {texts.kind}
          <select value={way} onChange={(event) => setWay(event.currentTarget.value as AuthWay)}>
            {page.authWays.map((each) => (
              <option key={each} value={each}>
                {labels[each]}
              </option>
            ))}
          </select>
        </label>
      )}
      <label>
        {labels[way]}
        <input type="password" autoComplete="off" spellcheck={false} required value={secret} onInput={(event) => setSecret(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary">
        {texts.submit}
      </button>
      <p class="muted">{texts.note}</p>
    </form>
  );
}
