import { expect, it } from "vitest";
import { knownReason, nextFilled } from "./letters";

it("a reason of a newer server is another one", () => {
  expect(["max_deliver", "too_heavy"].map(knownReason)).toEqual(["max_deliver", "other"]);
});

it("empty pages are passed over up to the next letters", async () => {
  const asked: (string | null)[] = [];
  const pages = [
    { items: [], next: "30" },
    { items: [], next: "20" },
    { items: ["letter"], next: "10" },
  ];
  const read = async (cursor: string | null): Promise<{ items: string[]; next: string | null }> => {
    asked.push(cursor);
    return pages[asked.length - 1]!;
  };

  expect(await nextFilled(read, null)).toEqual({ items: ["letter"], next: "10" });
  expect(asked).toEqual([null, "30", "20"]);
});

it("a search through empty pages has an end", async () => {
  let asked = 0;
  const read = async (): Promise<{ items: string[]; next: string | null }> => {
    asked += 1;
    return { items: [], next: "more" };
  };

  expect((await nextFilled(read, null)).next).toBe("more");
  expect(asked).toBe(20);
});
