// All texts of the page, in `en` and `ja`: no text is written in a component.

import { computed } from "@preact/signals";
import { language } from "../language";
import { en } from "./en";
import { ja } from "./ja";
import type { Texts } from "./texts";

/** The texts in the language of the page: `t.value.shell.retry`. */
export const t = computed<Texts>(() => (language.value === "ja" ? ja : en));
