// Asks the gateway whom it takes a credential for: before it is kept, and when an API has refused it.

import { effect } from "@preact/signals";
import { language } from "../language";
import { page } from "../page";
import { ApiError, asProblem, problemOf, type Problem } from "./problem";
import { authHeaders, caller, credential, signIn, signOut, type Caller, type Credential } from "./session";

async function whoAmI(given: Credential): Promise<Caller> {
  const headers = { ...authHeaders(given), "Accept-Language": language.peek() };
  const response = await fetch(new URL("whoami", page.baseUrl), { cache: "no-store", credentials: "same-origin", headers });
  const body: unknown = await response.json().catch(() => ({ message: `${response.status} ${response.statusText}` }));
  if (!response.ok) throw new ApiError(problemOf(response.status, body, response.headers));
  return body as Caller;
}

/** Keeps the credential if the gateway accepts it; the problem if it does not. */
export async function trySignIn(given: Credential): Promise<Problem | null> {
  // A header has bytes; anything else would be a failure of fetch, which looks like a gateway that is away.
  const typed = { ...given, secret: given.secret.replace(/[^\u0020-\u007e]/g, "?") };
  try {
    signIn(typed, await whoAmI(typed));
    return null;
  } catch (error) {
    return asProblem(error);
  }
}

/** Whether an answer says that the credential itself is refused: `null` where only `GET /whoami` can tell. */
export function refusesCredential(problem: Problem): boolean | null {
  // `/runs`, `/workers`, `/wheels` and `/metrics` refuse an API key with 403.
  if (problem.id === "ERR-PYOCO-0015") return true;
  if (problem.status !== 401) return false;
  // Errors of `/pdca` and `/gui` have no id; these APIs may want a token for another audience.
  return problem.id === "" ? null : true;
}

const AGAIN_MS = 10_000;
let isChecking = false;

/** Reads the caller of the present credential; discards one that the gateway no longer accepts. */
export async function checkCredential(): Promise<void> {
  const given = credential.peek();
  if (given === null || isChecking) return;
  isChecking = true;
  try {
    const known = await whoAmI(given);
    if (credential.peek() === given) caller.value = known;
  } catch (error) {
    const problem = asProblem(error);
    if (credential.peek() !== given) return;
    if (problem.status === 401 || problem.status === 403) signOut(problem.message);
    // It could not be checked now; until then the gateway decides about each request.
    else setTimeout(() => void checkCredential(), Math.max(AGAIN_MS, (problem.retryAfterSec ?? 0) * 1000));
  } finally {
    isChecking = false;
  }
}

/** Reads the caller of a credential that was kept in this tab before the page was loaded. */
export function startSession(): void {
  if (page.authWays.length === 0) return;
  effect(() => {
    if (credential.value !== null && caller.peek() === null) void checkCredential();
  });
}
