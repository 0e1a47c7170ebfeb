// What a server without runs shows: how to submit the first one.

import { quoted } from "../../components/call-menu";
import { CopyButton } from "../../components/copy";
import { Empty } from "../../components/notice";
import { page } from "../../page";
import { hashOf } from "../../router";
import { t } from "../../texts";

const START_WORKER = "pyoco-worker --nats-url nats://HOST:4222 --tags default";

export function FirstRun({ hasWorkers }: { hasWorkers: boolean }) {
  const texts = t.value.overview;
  const server = quoted(page.baseUrl.replace(/\/$/, ""));
  return (
    <div class="card">
      <Empty title={texts.first}>
        {!hasWorkers && <Step text={texts.firstWorker} command={START_WORKER} />}
        <Step text={texts.firstRun} command={`pyoco-client --server ${server} submit hello --watch`} />
        <p>
          <a href={hashOf(["flows"])}>{texts.toFlows}</a>
        </p>
      </Empty>
    </div>
  );
}

function Step({ text, command }: { text: string; command: string }) {
  return (
    <>
      <p class="muted">{text}</p>
      <div class="first-command">
        <code>{command}</code>
        <CopyButton text={command} />
      </div>
    </>
  );
}
