// The form of the texts, which is that of the English ones. A text that needs facts is a function of them.

import type { en } from "./en";

type Same<T> = {
  readonly [K in keyof T]: T[K] extends string
    ? string
    : T[K] extends (...facts: infer A) => string
      ? (...facts: A) => string
      : Same<T[K]>;
};

export type Texts = Same<typeof en>;
