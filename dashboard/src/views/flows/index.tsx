// The flows that running workers announce: all of them, or one.

import type { ViewProps } from "..";
import { FlowList } from "./flow-list";
import { FlowPage } from "./flow-page";
import "./flows.css";

export default function Flows({ rest }: ViewProps) {
  const [name] = rest;
  return name === undefined ? <FlowList /> : <FlowPage key={name} name={name} />;
}
