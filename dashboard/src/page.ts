// What the gateway says about itself in the attributes of the page.

export type Language = "en" | "ja";
export type AuthWay = "api_key" | "jwt";

export interface PageSettings {
  /** PYOCO_DASHBOARD_LANG; with `auto` the gateway has put the language of its locale into `lang`. */
  readonly language: "auto" | Language;
  readonly servedLanguage: Language;
  readonly authWays: readonly AuthWay[];
  readonly apiKeyHeader: string;
  /** Whether the page offers to change things (PYOCO_DASHBOARD_ACTIONS). */
  readonly hasActions: boolean;
  readonly version: string;
  /** The address of the gateway with the path prefix of a proxy, ending with a slash. */
  readonly baseUrl: string;
}

export function readPage(root: HTMLElement, baseUrl: string): PageSettings {
  const given = root.dataset["language"];
  return {
    language: given === "en" || given === "ja" ? given : "auto",
    servedLanguage: root.lang === "ja" ? "ja" : "en",
    authWays: (root.dataset["auth"] ?? "").split(",").filter((way) => way === "api_key" || way === "jwt"),
    apiKeyHeader: root.dataset["apiKeyHeader"] || "X-API-Key",
    hasActions: root.dataset["actions"] === "1",
    version: root.dataset["version"] ?? "",
    baseUrl,
  };
}

// Tests of pure modules have no document.
export const page: PageSettings =
  typeof document === "undefined"
    ? {
        language: "auto",
        servedLanguage: "en",
        authWays: [],
        apiKeyHeader: "X-API-Key",
        hasActions: false,
        version: "",
        baseUrl: "http://127.0.0.1:8000/",
      }
    : readPage(document.documentElement, document.baseURI);
