import { t } from "../../texts";

export default function View() {
  return <h1>{t.value.shell.pages.runs}</h1>;
}
