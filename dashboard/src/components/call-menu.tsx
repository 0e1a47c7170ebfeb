// The equivalent of a view as curl, pyoco-client and Python, to copy.

import { useState } from "preact/hooks";
import { page } from "../page";
import { t } from "../texts";
import { CopyButton } from "./copy";
import { Dialog } from "./dialog";
import { visible } from "./name";

export interface Calls {
  /** Path and query of the API call, beginning with a slash. */
  readonly path: string;
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** A JSON body. */
  readonly body?: unknown;
  /** The arguments of pyoco-client; absent where none has the same meaning. */
  readonly client?: string;
  /** Python behind `with PyocoHttpClient() as client:`; lines are indented here. */
  readonly python: string;
}

/** A word for a POSIX shell. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A string for Python, in which a pair of surrogates is two characters and not one. */
export function pythonText(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u{10ffff}]/gu, (character) => {
    const code = character.codePointAt(0)!.toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

export function curlOf({ path, method = "GET", body }: Calls): string {
  const parts = ["curl -sS"];
  if (method !== "GET") parts.push(`-X ${method}`);
  if (page.authWays.includes("api_key")) parts.push(`-H "${page.apiKeyHeader}: $PYOCO_API_KEY"`);
  else if (page.authWays.includes("jwt")) parts.push(`-H "Authorization: Bearer $PYOCO_TOKEN"`);
  if (body !== undefined) parts.push(`-H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`);
  parts.push(quoted(new URL(path.replace(/^\//, ""), page.baseUrl).href));
  return parts.join(" ");
}

function clientOf(client: string): string {
  return `pyoco-client --server ${quoted(page.baseUrl.replace(/\/$/, ""))} ${client}`;
}

export function pythonOf({ python }: Calls): string {
  const lines = python.split("\n").map((line) => `    ${line}`);
  const server = pythonText(page.baseUrl.replace(/\/$/, ""));
  return ["from pyoco_server.http_client import PyocoHttpClient", "", `with PyocoHttpClient(${server}) as client:`, ...lines].join("\n");
}

/** `label` says what the calls do where it is not what the view shows. */
export function CallMenu({ calls, label }: { calls: () => Calls; label?: string }) {
  const [shown, setShown] = useState<Calls | null>(null);
  const texts = t.value.shell.calls;
  return (
    <>
      <button type="button" class="quiet" onClick={() => setShown(calls())}>
        {"</>"} {label ?? texts.button}
      </button>
      {shown && (
        <Dialog title={label ?? texts.title} onClose={() => setShown(null)}>
          <CallBlock title={texts.curl} text={curlOf(shown)} />
          {shown.client !== undefined && <CallBlock title={texts.client} text={clientOf(shown.client)} />}
          <CallBlock title={texts.python} text={pythonOf(shown)} />
          {page.authWays.length > 0 && <p class="muted small">{texts.note}</p>}
        </Dialog>
      )}
    </>
  );
}

function CallBlock({ title, text }: { title: string; text: string }) {
  return (
    <section class="call">
      <header>
        <h3>{title}</h3>
        <CopyButton text={text} />
      </header>
      {/* Characters that reorder text would show another command than is copied. */}
      <pre tabIndex={0}>{text.split("\n").map(visible).join("\n")}</pre>
    </section>
  );
}
