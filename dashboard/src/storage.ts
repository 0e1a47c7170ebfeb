// Preferences and credentials in the browser's storage, which may be switched off or full.

export function stored(storage: () => Storage, key: string): string | null {
  try {
    return storage().getItem(key);
  } catch {
    return null; // storage is switched off: the page works without memory
  }
}

export function store(storage: () => Storage, key: string, value: string | null): void {
  try {
    if (value === null) storage().removeItem(key);
    else storage().setItem(key, value);
  } catch {
    // Not remembered: the next visit starts from the defaults.
  }
}

/** Kept for later visits: language, theme, columns. */
export const preferences = (): Storage => window.localStorage;
/** Kept for this tab only: credentials. */
export const tab = (): Storage => window.sessionStorage;
