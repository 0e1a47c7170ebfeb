import { expect, it } from "vitest";
import { answerOf, isBrokenJson, questionOf, typedAnswer } from "./answer";

it("a prompt has a text, choices and the rest", () => {
  expect(questionOf({ text: "Ship it?", choices: ["ship", "stop"] })).toEqual({ text: "Ship it?", choices: ["ship", "stop"], rest: undefined });
  expect(questionOf({ title: "Deploy", version: "1.4.0" })).toEqual({ text: "Deploy", choices: [], rest: { version: "1.4.0" } });
  expect(questionOf("Go on?")).toEqual({ text: "Go on?", choices: [], rest: undefined });
  expect(questionOf(null)).toEqual({ text: "", choices: [], rest: undefined });
});

it("a prompt of any other form is shown as it is", () => {
  expect(questionOf([1, 2])).toEqual({ text: "", choices: [], rest: [1, 2] });
  expect(questionOf({ choices: ["a", { b: 1 }] })).toEqual({ text: "", choices: ["a"], rest: { choices: ["a", { b: 1 }] } });
});

it("a comment makes an object of a choice", () => {
  expect(answerOf("ship", "  ")).toBe("ship");
  expect(answerOf("stop", " not on a friday ")).toEqual({ choice: "stop", comment: "not on a friday" });
});

it("a typed answer is JSON where it is JSON, else text", () => {
  expect(['{"a": 1}', "3", "true", " yes ", ""].map(typedAnswer)).toEqual([{ a: 1 }, 3, true, "yes", null]);
});

it("an unfinished object, list or string is a mistake", () => {
  expect(['{"a": 1', "[1,", '"x', "yes", '{"a": 1}', '"x"', ""].map(isBrokenJson)).toEqual([true, true, true, false, false, false, false]);
});
