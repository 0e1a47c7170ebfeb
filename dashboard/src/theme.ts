// Light or dark: the visitor's choice, else that of the system.

import { effect, signal } from "@preact/signals";
import { preferences, store, stored } from "./storage";

export type Theme = "system" | "light" | "dark";
const KEY = "pyoco.theme";

function first(): Theme {
  const chosen = typeof window === "undefined" ? null : stored(preferences, KEY);
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export const theme = signal<Theme>(first());

export function chooseTheme(chosen: Theme): void {
  store(preferences, KEY, chosen === "system" ? null : chosen);
  theme.value = chosen;
}

/** Whether the page is dark now; charts and canvases need to know. */
export const isDark = signal(false);

export function applyTheme(): void {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const update = (): void => {
    document.documentElement.dataset["theme"] = theme.value;
    isDark.value = theme.value === "dark" || (theme.value === "system" && system.matches);
  };
  system.addEventListener("change", update);
  effect(update);
}
