// Asks for an API key or a token where the gateway has access control, and keeps it once the gateway accepts it.

import { useState } from "preact/hooks";
import type { Problem } from "../../api/problem";
import { refusal } from "../../api/session";
import { trySignIn } from "../../api/who-am-i";
import { page, type AuthWay } from "../../page";
import { t } from "../../texts";
import { Notice, ProblemNotice } from "../notice";

export function SignIn() {
  const texts = t.value.shell.signIn;
  const [way, setWay] = useState<AuthWay>(page.authWays[0] ?? "api_key");
  const [secret, setSecret] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isChecking, setChecking] = useState(false);
  const labels: Record<AuthWay, string> = { api_key: texts.apiKey, jwt: texts.token };
  const submit = async (): Promise<void> => {
    if (isChecking || secret.trim() === "") return;
    setChecking(true);
    refusal.value = null;
    setProblem(await trySignIn({ way, secret: secret.trim() }));
    setChecking(false);
  };
  return (
    <form
      class="sign-in"
      // Never sent by the browser itself, which would put the field into the address.
      method="dialog"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <h1>{texts.title}</h1>
      {refusal.value !== null && (
        <Notice kind="error">
          <p dir="auto">{refusal.value || texts.refused}</p>
        </Notice>
      )}
      {problem && <ProblemNotice problem={problem} />}
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
      <button type="submit" class="primary" aria-disabled={isChecking ? true : undefined}>
        {isChecking ? texts.checking : texts.submit}
      </button>
      <p class="muted">{texts.note}</p>
    </form>
  );
}
