import { actions } from "./actions";
import { approvals } from "./approvals";
import { audit } from "./audit";
import { chart } from "./chart";
import { compare } from "./compare";
import { deadLetters } from "./dead-letters";
import { flows } from "./flows";
import { graph } from "./graph";
import { log } from "./log";
import { overview } from "./overview";
import { run } from "./run";
import { runs } from "./runs";
import { shell } from "./shell";
import { strategies } from "./strategies";
import { wheels } from "./wheels";
import { workers } from "./workers";

export const en = {
  actions,
  approvals,
  audit,
  chart,
  compare,
  deadLetters,
  flows,
  graph,
  log,
  overview,
  run,
  runs,
  shell,
  strategies,
  wheels,
  workers,
};
