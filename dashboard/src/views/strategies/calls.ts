// The pages of strategies and rechecks as calls to copy.

import { pythonText, quoted, type Calls } from "../../components/call-menu";

export interface StrategyQuery {
  q?: string;
  tags_any?: string;
  health?: string;
  instrument?: string;
  enabled?: "on" | "off";
  sort: string;
  page: number;
  page_size: number;
}

export function listCalls(query: StrategyQuery): Calls {
  const entries = Object.entries(query) as [string, string | number][];
  const options = entries.map(([name, value]) => `--${name === "tags_any" ? "tag" : name.replace("_", "-")} ${quoted(String(value))}`);
  const named = entries.map(([name, value]) => `${name}=${typeof value === "number" ? value : pythonText(value)}`);
  return {
    path: `/gui/strategies?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString()}`,
    client: ["strategies", ...options].join(" "),
    python: `page = client.list_strategies(${named.join(", ")})\nfor strategy in page["items"]:\n    print(strategy["id"], strategy["last_health"])`,
  };
}

export function strategyCalls(id: string, days: number, results: number): Calls {
  return {
    path: `/gui/strategies/${encodeURIComponent(id)}?summary_window_days=${days}&limit_history=${results}`,
    client: `strategy --days ${days} --limit ${results} -- ${quoted(id)}`,
    python: `found = client.get_strategy(${pythonText(id)}, summary_window_days=${days}, limit_history=${results})\nprint(found["strategy"]["last_health"], found["summary"]["kpi_avg"])`,
  };
}

/** Below /pdca a token for either audience is accepted. */
export function recheckCalls(id: string): Calls {
  return {
    path: `/pdca/recheck/${encodeURIComponent(id)}`,
    client: `recheck -- ${quoted(id)}`,
    python: `request = client.get_recheck(${pythonText(id)})\nprint(request["status"], request["progress"])`,
  };
}
