// The credential of this tab: an API key or a bearer token, sent as a header and never part of an address.

import { computed, signal } from "@preact/signals";
import { page, type AuthWay } from "../page";
import { store, stored, tab } from "../storage";
import type { components } from "./schema";

export interface Credential {
  readonly way: AuthWay;
  readonly secret: string;
}

/** Whom the gateway takes the credential for. */
export type Caller = components["schemas"]["WhoAmI"];

const KEY = "pyoco.credential";

function remembered(): Credential | null {
  const text = typeof window === "undefined" ? null : stored(tab, KEY);
  if (text === null) return null;
  const [way, ...rest] = text.split(":");
  return way === "api_key" || way === "jwt" ? { way, secret: rest.join(":") } : null;
}

export const credential = signal<Credential | null>(remembered());

/** Null without access control, and until the gateway has answered. */
export const caller = signal<Caller | null>(null);

/** Why the last credential was discarded; shown where the page asks for one. */
export const refusal = signal<string | null>(null);

export const needsCredential = computed(() => page.authWays.length > 0 && credential.value === null);

export function signIn(given: Credential, known: Caller): void {
  refusal.value = null;
  store(tab, KEY, `${given.way}:${given.secret}`);
  caller.value = known;
  credential.value = given;
}

export function signOut(why: string | null = null): void {
  refusal.value = why;
  store(tab, KEY, null);
  credential.value = null;
  caller.value = null;
}

/** Whether the caller has the scope, as far as the page knows; the gateway decides. */
export function may(scope: string): boolean {
  const scopes = caller.value?.scopes;
  return scopes === undefined || scopes.includes(scope) || scopes.includes("admin");
}

export function authHeaders(given: Credential | null = credential.peek()): Record<string, string> {
  if (given === null) return {};
  return given.way === "api_key" ? { [page.apiKeyHeader]: given.secret } : { Authorization: `Bearer ${given.secret}` };
}
