// What can be done on the page: cancel a run, answer a node that waits, replay a dead letter, hide a worker.

import { signal } from "@preact/signals";
import { api, body, type Schemas } from "../../api/client";
import { hashOf } from "../../router";
import { t } from "../../texts";
import { LongText, Name } from "../name";
import { Status } from "../status";
import { answerOf, isBrokenJson, questionOf, typedAnswer, type JsonValue } from "./answer";
import { ActionButton } from "./button";
import type { Action } from "./host";

type Wait = Schemas["WaitOut"];
type Letter = Schemas["DeadLetterOut"];

const MAX_REASON_CHARS = 1000;

function keyed(key: string): { "Idempotency-Key": string } {
  return { "Idempotency-Key": key };
}

function RunLink({ runId }: { runId: string }) {
  return (
    <a href={hashOf(["runs", runId])} class="mono">
      {runId}
    </a>
  );
}

/** For a run that has not finished. */
export function CancelRunButton({ runId, flowName, onDone }: { runId: string; flowName: string | null | undefined; onDone?: () => void }) {
  const texts = t.value.actions.cancel;
  const action = (): Action<{ status: string }> => {
    const reason = signal("");
    return {
      title: texts.title,
      object: (
        <>
          {flowName && <Name text={flowName} />} <span class="mono">{runId}</span>
        </>
      ),
      explanation: texts.explanation,
      submit: texts.submit,
      isDangerous: true,
      fields: (isLocked) => (
        <label class="field">
          {texts.reason}
          <input type="text" maxLength={MAX_REASON_CHARS} disabled={isLocked} autoFocus value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
        </label>
      ),
      send: (key) =>
        body(
          api.POST("/runs/{run_id}/cancel", {
            params: { path: { run_id: runId }, header: keyed(key) },
            body: reason.value.trim() ? { reason: reason.value.trim() } : {},
          }),
        ),
      done: ({ status }) => (
        <p>
          <Status status={status} /> {status === "CANCELLED" ? texts.cancelled : status === "CANCELLING" ? texts.cancelling : texts.wasFinished}
        </p>
      ),
      ...(onDone && { onDone }),
    };
  };
  return <ActionButton label={texts.button} scope="runs:cancel" action={action} />;
}

/** For a node that waits, as `GET /waits` lists it. */
export function AnswerWaitButton({ wait, onDone }: { wait: Wait; onDone?: () => void }) {
  const texts = t.value.actions.answer;
  const action = (): Action => {
    const question = questionOf(wait.prompt);
    // None at first: the first one should not be sent by mistake.
    const choice = signal("");
    const text = signal("");
    const answer = (): JsonValue => (question.choices.length > 0 ? answerOf(choice.value, text.value) : typedAnswer(text.value));
    return {
      title: texts.title,
      object: (
        <>
          <Name text={wait.nodeId} /> · <Name text={wait.graphId} /> <span class="mono">{wait.executionId}</span>
        </>
      ),
      explanation: texts.explanation,
      submit: texts.submit,
      fields: (isLocked) => (
        <>
          {question.text && <LongText text={question.text} />}
          {question.choices.length > 0 && (
            <fieldset disabled={isLocked} class="choices">
              <legend>{texts.choice}</legend>
              {question.choices.map((each, place) => (
                <label key={each}>
                  <input type="radio" name="choice" autoFocus={place === 0} checked={choice.value === each} onChange={() => (choice.value = each)} />
                  <Name text={each} />
                </label>
              ))}
            </fieldset>
          )}
          <label class="field">
            {question.choices.length > 0 ? texts.comment : texts.value}
            <textarea rows={3} disabled={isLocked} autoFocus={question.choices.length === 0} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
          </label>
        </>
      ),
      mistake: () => {
        if (question.choices.length > 0) return choice.value === "" ? texts.noChoice : null;
        return isBrokenJson(text.value) ? texts.brokenJson : null;
      },
      send: (key) =>
        body(
          api.POST("/executions/{executionId}/nodes/{nodeId}/resume", {
            params: { path: { executionId: wait.executionId, nodeId: wait.nodeId }, header: keyed(key) },
            body: { resumeKey: wait.waitKey ?? "", answer: answer() as never, attempt: wait.attempt },
          }),
        ),
      done: () => (
        <p>
          {texts.done} <RunLink runId={wait.executionId} />
        </p>
      ),
      ...(onDone && { onDone }),
    };
  };
  return <ActionButton label={texts.button} scope="nodes:work" action={action} />;
}

/** For a dead letter that has a job. */
export function ReplayButton({ letter, onDone }: { letter: Letter; onDone?: () => void }) {
  const texts = t.value.actions.replay;
  const action = (): Action<Schemas["Replayed"]> => ({
    title: texts.title,
    object: (
      <>
        #{letter.seq} {letter.flow_name && <Name text={letter.flow_name} />} {letter.run_id && <span class="mono">{letter.run_id}</span>}
      </>
    ),
    explanation: texts.explanation,
    submit: texts.submit,
    send: (key) => body(api.POST("/dlq/{seq}/replay", { params: { path: { seq: String(letter.seq) }, header: keyed(key) } })),
    done: (replayed) => (
      <p>
        {texts.done} <RunLink runId={replayed.run_id} />
      </p>
    ),
    ...(onDone && { onDone }),
  });
  return <ActionButton label={texts.button} scope="dlq:write" action={action} isSmall />;
}

export function HideWorkerButton({ workerId, isHidden, onDone }: { workerId: string; isHidden: boolean; onDone?: () => void }) {
  const texts = isHidden ? t.value.actions.show : t.value.actions.hide;
  const action = (): Action => ({
    title: texts.title,
    object: <Name text={workerId} />,
    explanation: texts.explanation,
    submit: texts.button,
    send: (key) => body(api.PATCH("/workers/{worker_id}", { params: { path: { worker_id: workerId }, header: keyed(key) }, body: { hidden: !isHidden } })),
    done: () => <p>{texts.done}</p>,
    ...(onDone && { onDone }),
  });
  return <ActionButton label={texts.button} scope="workers:write" action={action} isSmall />;
}
