import { afterEach, expect, it, vi } from "vitest";
import type { Problem } from "./problem";
import { caller, credential, may, refusal, signIn, signOut, type Caller } from "./session";
import { checkCredential, refusesCredential, trySignIn } from "./who-am-i";

const PROBLEM: Problem = { status: 0, message: "", hint: "", id: "", requestId: "", retryAfterSec: null };
const ANN: Caller = { client_id: "ann", kind: "api_key", tenant_id: "team-a", scopes: ["runs:read"], audiences: null, expires_at: null };
const KEY = { way: "api_key", secret: "secret" } as const;

function answering(status: number, body: unknown): typeof fetch & { mock: { calls: unknown[][] } } {
  const answer = vi.fn(async () => new Response(JSON.stringify(body), { status }));
  vi.stubGlobal("fetch", answer);
  return answer as never;
}

afterEach(() => {
  vi.unstubAllGlobals();
  signOut();
});

it("a credential is refused by its error, also where that is a 403, and never by a missing scope", () => {
  expect(refusesCredential({ ...PROBLEM, status: 403, id: "ERR-PYOCO-0015" })).toBe(true);
  expect(refusesCredential({ ...PROBLEM, status: 401, id: "ERR-PYOCO-0037" })).toBe(true);
  expect(refusesCredential({ ...PROBLEM, status: 403, id: "ERR-PYOCO-0036" })).toBe(false);
  expect(refusesCredential({ ...PROBLEM, status: 503, id: "ERR-PYOCO-0003" })).toBe(false);
});

it("an error without an id says nothing about the credential", () => {
  expect(refusesCredential({ ...PROBLEM, status: 401 })).toBeNull();
});

it("only an accepted credential is kept, and it is in no address", async () => {
  const refused = answering(401, { detail: "no such key", err_id: "ERR-PYOCO-0015" });
  expect((await trySignIn(KEY))?.message).toBe("no such key");
  expect(credential.value).toBeNull();
  expect(String(refused.mock.calls[0]?.[0])).toBe("http://127.0.0.1:8000/whoami");

  answering(200, ANN);
  expect(await trySignIn(KEY)).toBeNull();
  expect([credential.value, caller.value]).toEqual([KEY, ANN]);
});

it("a credential that is refused later is discarded with the reason, and kept while it cannot be checked", async () => {
  signIn(KEY, ANN);
  answering(503, { detail: "away", err_id: "ERR-PYOCO-0003" });
  vi.useFakeTimers();
  await checkCredential();
  expect(credential.value).toEqual(KEY);

  answering(401, { detail: "this API key was revoked", err_id: "ERR-PYOCO-0015" });
  await vi.runAllTimersAsync();
  vi.useRealTimers();
  expect([credential.value, caller.value, refusal.value]).toEqual([null, null, "this API key was revoked"]);
});

it("scopes are those of the caller; admin has all, and without a caller the gateway decides", () => {
  expect(may("dlq:read")).toBe(true);
  signIn(KEY, ANN);
  expect([may("runs:read"), may("dlq:read")]).toEqual([true, false]);
  signIn(KEY, { ...ANN, scopes: ["admin"] });
  expect(may("dlq:read")).toBe(true);
});
