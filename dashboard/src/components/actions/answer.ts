// What a prompt asks for, and the answer that a person has typed.

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [name: string]: JsonValue };

/** A prompt as it is shown: its text, its choices, and what else is in it. */
export interface Question {
  readonly text: string;
  readonly choices: readonly string[];
  readonly rest: JsonValue | undefined;
}

const TEXT_FIELDS = ["text", "title", "question", "message"];

export function questionOf(prompt: unknown): Question {
  if (prompt === null || prompt === undefined) return { text: "", choices: [], rest: undefined };
  if (typeof prompt === "string") return { text: prompt, choices: [], rest: undefined };
  if (typeof prompt !== "object" || Array.isArray(prompt)) return { text: "", choices: [], rest: prompt as JsonValue };
  const fields = { ...(prompt as Record<string, JsonValue>) };
  const given = fields["choices"];
  const choices = Array.isArray(given) ? given.filter((choice): choice is string => typeof choice === "string") : [];
  if (Array.isArray(given) && choices.length === given.length) delete fields["choices"];
  const name = TEXT_FIELDS.find((field) => typeof fields[field] === "string");
  const text = name === undefined ? "" : (fields[name] as string);
  if (name !== undefined) delete fields[name];
  return { text, choices, rest: Object.keys(fields).length > 0 ? fields : undefined };
}

/** The answer of a choice; with a comment it is an object. */
export function answerOf(choice: string, comment: string): JsonValue {
  return comment.trim() === "" ? choice : { choice, comment: comment.trim() };
}

/** A typed answer: JSON where it is JSON, else the text; nothing is null. */
export function typedAnswer(text: string): JsonValue {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  try {
    return JSON.parse(trimmed) as JsonValue;
  } catch {
    return trimmed;
  }
}

/** A text that begins like JSON and is none is a mistake and no answer. */
export function isBrokenJson(text: string): boolean {
  return /^\s*[[{"]/.test(text) && typedAnswer(text) === text.trim();
}
