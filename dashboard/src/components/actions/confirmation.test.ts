import { describe, expect, it } from "vitest";
import { ApiError, type Problem } from "../../api/problem";
import { confirmation, isOutcomeUnknown, newKey } from "./confirmation";

const PROBLEM: Problem = { status: 0, message: "", hint: "", id: "", requestId: "", retryAfterSec: null };

function refusing(...statuses: number[]): { keys: string[]; send: (key: string) => Promise<string> } {
  const keys: string[] = [];
  const send = async (key: string): Promise<string> => {
    keys.push(key);
    const status = statuses.shift();
    if (status !== undefined) throw new ApiError({ ...PROBLEM, status });
    return "made";
  };
  return { keys, send };
}

function counter(): () => string {
  let made = 0;
  return () => `key-${(made += 1)}`;
}

describe("a confirmed action", () => {
  it("is sent once, however often it is pressed", async () => {
    const { keys, send } = refusing();
    const asked = confirmation(send, counter());

    await Promise.all([asked.submit(), asked.submit()]);
    await asked.submit();

    expect(keys).toEqual(["key-1"]);
    expect([asked.phase.value, asked.outcome.value]).toEqual(["done", "made"]);
  });

  it("is repeated with the same key while its outcome is unknown", async () => {
    const { keys, send } = refusing(0, 503);
    const asked = confirmation(send, counter());

    await asked.submit();
    expect(asked.phase.value).toBe("unknown");
    await asked.submit();
    await asked.submit();

    expect(keys).toEqual(["key-1", "key-1", "key-1"]);
    expect([asked.phase.value, asked.problem.value]).toEqual(["done", null]);
  });

  it("has a new key after a refusal: what is sent next may differ", async () => {
    const { keys, send } = refusing(422, 409);
    const asked = confirmation(send, counter());

    await asked.submit();
    expect(asked.phase.value).toBe("refused");
    await asked.submit();
    await asked.submit();

    expect(keys).toEqual(["key-1", "key-2", "key-3"]);
  });

  it("keeps its key when a request without an answer is refused afterwards only by a limit of requests", async () => {
    const { keys, send } = refusing(0, 429);
    const asked = confirmation(send, counter());

    await asked.submit();
    await asked.submit();
    await asked.submit();

    expect(keys).toEqual(["key-1", "key-1", "key-1"]);
  });
});

it("an outcome is unknown without an answer, and when the gateway has failed", () => {
  const unknown = [0, 408, 500, 502, 503, 504];
  const known = [400, 401, 403, 404, 409, 413, 422, 429];

  expect(unknown.map((status) => isOutcomeUnknown({ ...PROBLEM, status }))).toEqual(unknown.map(() => true));
  expect(known.map((status) => isOutcomeUnknown({ ...PROBLEM, status }))).toEqual(known.map(() => false));
});

it("keys are as long as the API accepts, and differ", () => {
  expect(newKey()).toMatch(/^[0-9a-f]{32}$/);
  expect(newKey()).not.toBe(newKey());
});
