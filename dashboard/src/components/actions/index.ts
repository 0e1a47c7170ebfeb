// Actions with a confirmation; only where PYOCO_DASHBOARD_ACTIONS allows them.

export { AnswerWaitButton, CancelRunButton, HideWorkerButton, ReplayButton } from "./actions";
export { ConfirmationHost } from "./host";
