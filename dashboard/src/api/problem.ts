// One form for the errors of all APIs of the gateway, and for a gateway that does not answer.

export interface Problem {
  /** 0: there was no answer. */
  readonly status: number;
  readonly message: string;
  /** What to do next, in the language of the request. */
  readonly hint: string;
  /** `ERR-PYOCO-0005`; empty when the answer was not the gateway's. */
  readonly id: string;
  readonly requestId: string;
  readonly retryAfterSec: number | null;
}

export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
    this.name = "ApiError";
  }
}

/** The problem in the body of a refused request; each API has its own form of errors. */
export function problemOf(status: number, body: unknown, headers: Headers): Problem {
  const outer = record(body);
  const inner = record(outer["error"]);
  const details = record(inner["details"]);
  const retryAfter = Number(headers.get("retry-after") ?? NaN);
  return {
    status,
    message: firstText(inner["message"], outer["detail"], outer["message"], outer["title"], outer["error"]),
    hint: firstText(outer["hint"], details["hint"]),
    id: firstText(outer["err_id"], outer["errId"], details["errId"]),
    requestId: headers.get("x-request-id") ?? "",
    retryAfterSec: Number.isFinite(retryAfter) ? retryAfter : null,
  };
}

export function asProblem(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  const message = error instanceof Error ? error.message : String(error);
  return { status: 0, message, hint: "", id: "", requestId: "", retryAfterSec: null };
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function firstText(...values: unknown[]): string {
  return values.find((value): value is string => typeof value === "string" && value !== "") ?? "";
}
