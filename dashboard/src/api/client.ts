// Calls of the gateway's API, typed by its OpenAPI document.

import createClient, { type Middleware } from "openapi-fetch";
import { language } from "../language";
import { page } from "../page";
import { ApiError, problemOf } from "./problem";
import type { components, paths } from "./schema";
import { authHeaders, credential, signOut } from "./session";
import { checkCredential, refusesCredential } from "./who-am-i";

export type Schemas = components["schemas"];

/** The headers of every request: credentials, and the language of messages. */
export function requestHeaders(): Record<string, string> {
  return { ...authHeaders(), "Accept-Language": language.peek() };
}

/** Throws the problem of a refused answer, and discards a credential that is no longer accepted. */
export async function checked(response: Response, sent: unknown = credential.peek()): Promise<Response> {
  if (response.ok || response.status === 304) return response;
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => ({ message: `${response.status} ${response.statusText}` }));
  const problem = problemOf(response.status, body, response.headers);
  // Only the credential that was sent: an answer may be older than the next sign-in.
  if (page.authWays.length > 0 && credential.peek() === sent) {
    const isRefused = refusesCredential(problem);
    if (isRefused) signOut(problem.message);
    else if (isRefused === null) void checkCredential();
  }
  throw new ApiError(problem);
}

const sentWith = new WeakMap<Request, unknown>();

const middleware: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(requestHeaders())) request.headers.set(name, value);
    sentWith.set(request, credential.peek());
    return request;
  },
  onResponse: async ({ request, response }) => await checked(response, sentWith.get(request)),
};

/**
 * `(await api.GET("/runs/{run_id}", {params: {path: {run_id}}, signal})).data`; throws `ApiError` for a refused request.
 * Repeated parameters of a query are written as the gateway reads them: `tags=a&tags=b`.
 */
export const api = createClient<paths>({
  baseUrl: page.baseUrl.replace(/\/$/, ""),
  cache: "no-store",
  credentials: "same-origin",
  querySerializer: { array: { style: "form", explode: true } },
});
api.use(middleware);

/** The body of a successful answer. */
export async function body<T>(answer: Promise<{ data?: T }>): Promise<NonNullable<T>> {
  return (await answer).data as NonNullable<T>;
}

/** A request outside of the typed client: streams and downloads. */
export async function fetchApi(path: string, init: RequestInit & { headers?: Record<string, string> } = {}): Promise<Response> {
  const sent = credential.peek();
  const headers = { ...requestHeaders(), ...init.headers };
  const url = new URL(path.replace(/^\//, ""), page.baseUrl);
  return await checked(await fetch(url, { cache: "no-store", ...init, headers }), sent);
}
