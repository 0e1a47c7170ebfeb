// What a view shows instead of, or above, its data: loading, empty, a problem.

import type { ComponentChildren } from "preact";
import type { Problem } from "../api/problem";
import { t } from "../texts";
import { duration } from "../format";

export function Loading() {
  return (
    <p class="loading" role="status">
      {t.value.shell.loading}
    </p>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Notice({ kind = "info", children }: { kind?: "info" | "warning" | "error" | "success"; children: ComponentChildren }) {
  return (
    <div class={`notice notice-${kind}`} role={kind === "error" ? "alert" : "status"}>
      {children}
    </div>
  );
}

/** A refused request, or a gateway that does not answer: what happened and what to do next. */
export function ProblemNotice({ problem, hasData = false, onRetry }: { problem: Problem; hasData?: boolean; onRetry?: () => void }) {
  const texts = t.value.shell;
  const isGone = problem.status === 0;
  const title = isGone
    ? texts.problems.unreachable
    : problem.status === 403
      ? texts.problems.forbidden
      : problem.message || texts.problems.unavailable;
  const detail = problem.status === 403 ? problem.message : "";
  const hint = isGone ? texts.problems.unreachableHint : problem.hint;
  return (
    <Notice kind={problem.status >= 500 || isGone ? "warning" : "error"}>
      <p>
        <strong dir="auto">{title}</strong>
      </p>
      {detail && <p dir="auto">{detail}</p>}
      {hint && <p dir="auto">{hint}</p>}
      {hasData && <p>{texts.problems.staleData}</p>}
      {problem.retryAfterSec !== null && <p>{texts.problems.retryIn(duration(problem.retryAfterSec))}</p>}
      {(problem.id || problem.requestId) && (
        <p class="muted small">
          {problem.id} {problem.requestId && `${texts.problems.requestId} ${problem.requestId}`}
        </p>
      )}
      {onRetry && (
        <button type="button" onClick={onRetry}>
          {texts.retry}
        </button>
      )}
    </Notice>
  );
}
