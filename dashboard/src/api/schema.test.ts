import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

test("the types are those of the API document; `npm run api-types` writes them", () => {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
  const [, ...options] = (scripts["api-types"] ?? "").split(" ");

  const checked = spawnSync(process.execPath, ["node_modules/openapi-typescript/bin/cli.js", ...options, "--check"], {
    encoding: "utf8",
  });

  expect(checked.stderr).toBe("");
  expect(checked.status).toBe(0);
}, 120_000);
