// The language of the page: the visitor's choice, else what the gateway serves.

import { effect, signal } from "@preact/signals";
import { page, type Language } from "./page";
import { preferences, store, stored } from "./storage";

const KEY = "pyoco.language";

function first(): Language {
  const chosen = typeof window === "undefined" ? null : stored(preferences, KEY);
  return chosen === "en" || chosen === "ja" ? chosen : page.servedLanguage;
}

export const language = signal<Language>(first());

export function chooseLanguage(chosen: Language): void {
  store(preferences, KEY, chosen);
  language.value = chosen;
}

/** Keeps `<html lang>` right: without it Japanese is shown with Chinese glyphs. */
export function applyLanguage(): void {
  effect(() => {
    document.documentElement.lang = language.value;
  });
}
