import { expect, it } from "vitest";
import { lineOf } from "./sparkline-line";
import { isUlid, runIdOf, ulidOf } from "./ulid";

it("a request and its run have the same id in two forms", () => {
  expect(ulidOf("019a9bf1-3d14-7c4d-9d40-6f0c3b1a2e55")).toBe("01KADZ2F8MFH6STG3F1GXHMBJN");
  expect(runIdOf("01KADZ2F8MFH6STG3F1GXHMBJN")).toBe("019a9bf1-3d14-7c4d-9d40-6f0c3b1a2e55");
  for (const id of ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]) expect(runIdOf(ulidOf(id) ?? "")).toBe(id);
});

it("any other text is no id", () => {
  expect([ulidOf("x"), runIdOf("x"), runIdOf("81KADZ2F8MFH6STG3F1GXHMBJN"), runIdOf("01kadz2f8mfh6stg3f1gxhmbjn")]).toEqual([null, null, null, null]);
  expect([isUlid("01KADZ2F8MFH6STG3F1GXHMBJN"), isUlid("rechecks")]).toEqual([true, false]);
});

it("a line begins with the oldest value and has the largest at the top", () => {
  expect(
    lineOf([
      { at: 30, value: 2 },
      { at: 10, value: 1 },
      { at: 20, value: 1.5 },
    ]),
  ).toEqual({
    points: [
      [0, 100],
      [50, 50],
      [100, 0],
    ],
    least: 1,
    most: 2,
  });
});

it("one value, equal values and no values have a line, too, or none", () => {
  expect(lineOf([{ at: 5, value: 3 }])?.points).toEqual([[100, 50]]);
  expect(lineOf([{ at: 5, value: Number.NaN }])).toBeNull();
  expect(lineOf([])).toBeNull();
});
