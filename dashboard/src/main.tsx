// Starts the page.

import { render } from "preact";
import { startSession } from "./api/who-am-i";
import { App } from "./app";
import { startClock } from "./clock";
import { applyLanguage } from "./language";
import { startRouter } from "./router";
import { applyTheme } from "./theme";
import "./styles/tokens.css";
import "./styles/base.css";

applyTheme();
applyLanguage();
startClock();
startRouter();
startSession();
const root = document.getElementById("app");
if (root) render(<App />, root);
