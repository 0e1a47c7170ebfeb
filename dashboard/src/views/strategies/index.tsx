// Strategies and rechecks: `#/strategies`, `…/strategy/<id>`, `…/rechecks`, `…/recheck/<id of the request>`.

import type { ViewProps } from "..";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { RecheckList } from "./recheck-list";
import { Recheck } from "./recheck";
import { StrategyDetail } from "./strategy-detail";
import { StrategyList } from "./strategy-list";
import "./strategies.css";

export default function Strategies({ rest }: ViewProps) {
  const [part, id] = rest;
  if (part === "strategy" && id !== undefined) return <StrategyDetail key={id} id={id} />;
  if (part === "recheck" && id !== undefined) return <Recheck key={id} id={id} />;
  return part === "rechecks" ? <RecheckList tabs={<Tabs present="rechecks" />} /> : <StrategyList tabs={<Tabs present="list" />} />;
}

function Tabs({ present }: { present: "list" | "rechecks" }) {
  const texts = t.value.strategies;
  return (
    <nav class="tabs" aria-label={texts.tabs}>
      <a href={hashOf(["strategies"])} aria-current={present === "list" ? "page" : undefined}>
        {texts.list}
      </a>
      <a href={hashOf(["strategies", "rechecks"])} aria-current={present === "rechecks" ? "page" : undefined}>
        {texts.rechecks}
      </a>
    </nav>
  );
}
