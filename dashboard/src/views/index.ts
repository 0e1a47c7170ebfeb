// Which view serves which place of the page. A view is loaded when it is first shown.

import type { ComponentType } from "preact";
import type { t } from "../texts";

export type PageName = keyof typeof t.value.shell.pages;

export interface ViewProps {
  /** The parts of the path behind the name of the view. */
  readonly rest: readonly string[];
}

export interface View {
  /** The first part of the path; empty for the first page. */
  readonly path: string;
  readonly name: PageName;
  readonly isInNavigation: boolean;
  /** Whether it serves places below its path too (`#/flows/<name>`), or only those if another view has the path itself. */
  readonly hasRest: boolean;
  /** Without it the view says so instead of asking for what is refused. */
  readonly scope: string;
  load(): Promise<{ default: ComponentType<ViewProps> }>;
}

/** In the order of the navigation. */
export const VIEWS: readonly View[] = [
  { path: "", name: "overview", isInNavigation: true, hasRest: false, scope: "runs:read", load: () => import("./overview") },
  { path: "runs", name: "runs", isInNavigation: true, hasRest: false, scope: "runs:read", load: () => import("./runs") },
  { path: "runs", name: "run", isInNavigation: false, hasRest: true, scope: "runs:read", load: () => import("./run") },
  { path: "compare", name: "compare", isInNavigation: false, hasRest: false, scope: "runs:read", load: () => import("./compare") },
  { path: "flows", name: "flows", isInNavigation: true, hasRest: true, scope: "runs:read", load: () => import("./flows") },
  { path: "workers", name: "workers", isInNavigation: true, hasRest: false, scope: "workers:read", load: () => import("./workers") },
  { path: "approvals", name: "approvals", isInNavigation: true, hasRest: false, scope: "runs:read", load: () => import("./approvals") },
  { path: "wheels", name: "wheels", isInNavigation: true, hasRest: false, scope: "wheels:read", load: () => import("./wheels") },
  { path: "dead-letters", name: "deadLetters", isInNavigation: true, hasRest: false, scope: "dlq:read", load: () => import("./dead-letters") },
  { path: "strategies", name: "strategies", isInNavigation: true, hasRest: true, scope: "pdca:read", load: () => import("./strategies") },
  { path: "audit", name: "audit", isInNavigation: true, hasRest: false, scope: "admin", load: () => import("./audit") },
];

export function viewOf(path: readonly string[]): View | undefined {
  const [first = "", ...rest] = path;
  const found = VIEWS.filter((view) => view.path === first);
  return found.find((view) => view.hasRest === rest.length > 0) ?? found.find((view) => view.hasRest);
}
