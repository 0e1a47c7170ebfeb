import { expect, test } from "vitest";
import { problemOf } from "./problem";

test.each([
  [{ detail: "no such run", err_id: "ERR-PYOCO-0005", hint: "look" }, ["no such run", "look", "ERR-PYOCO-0005"]],
  [{ error: { code: "X", message: "rejected", details: { errId: "ERR-PYOCO-0030", hint: "stop" } } }, ["rejected", "stop", "ERR-PYOCO-0030"]],
  [{ title: "Not found", detail: "no job", errId: "ERR-PYOCO-0005", hint: "h" }, ["no job", "h", "ERR-PYOCO-0005"]],
  [{ error: "BAD_REQUEST", message: "window is missing" }, ["window is missing", "", ""]],
  ["<html>", ["", "", ""]],
])("the error %j is understood", (body, [message, hint, id]) => {
  expect(problemOf(400, body, new Headers({ "retry-after": "3" }))).toMatchObject({ status: 400, message, hint, id, retryAfterSec: 3 });
});
