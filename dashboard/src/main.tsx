// Starts the page.

import { render } from "preact";
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
const root = document.getElementById("app");
if (root) render(<App />, root);
