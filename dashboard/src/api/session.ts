// The credential of this tab: an API key or a bearer token, sent as a header and never part of an address.

import { computed, signal } from "@preact/signals";
import { page, type AuthWay } from "../page";
import { store, stored, tab } from "../storage";

export interface Credential {
  readonly way: AuthWay;
  readonly secret: string;
}

const KEY = "pyoco.credential";

function remembered(): Credential | null {
  const text = typeof window === "undefined" ? null : stored(tab, KEY);
  if (text === null) return null;
  const [way, ...rest] = text.split(":");
  return way === "api_key" || way === "jwt" ? { way, secret: rest.join(":") } : null;
}

export const credential = signal<Credential | null>(remembered());

/** Why the last credential was discarded; shown where the page asks for one. */
export const refusal = signal<string | null>(null);

export const needsCredential = computed(() => page.authWays.length > 0 && credential.value === null);

export function signIn(given: Credential): void {
  refusal.value = null;
  store(tab, KEY, `${given.way}:${given.secret}`);
  credential.value = given;
}

export function signOut(why: string | null = null): void {
  refusal.value = why;
  store(tab, KEY, null);
  credential.value = null;
}

export function authHeaders(): Record<string, string> {
  const given = credential.peek();
  if (given === null) return {};
  return given.way === "api_key" ? { [page.apiKeyHeader]: given.secret } : { Authorization: `Bearer ${given.secret}` };
}
