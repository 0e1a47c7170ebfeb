"""Runs and their tasks as rows and lines of text. Prints nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pyoco_server.cli.output import localized
from pyoco_server.cli.tables import Json, Row, Table, duration, inline_json, moment, stamp, text
from pyoco_server.cli.terminal_escape import escape_line

TERMINAL = ("COMPLETED", "FAILED", "CANCELLED", "CANCELED")
MARKS = {"SUCCEEDED": "✓", "FAILED": "✗", "CANCELLED": "■", "CANCELED": "■", "PENDING": "·", "IDLE": "·", "READY": "○"}
MARKS["WAITING"] = "?"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TASK_HEAD = ("", "TASK", "STATUS", "TIME", "DETAIL")
BAR_WIDTH = 20
# Of a result that is shown on one line.
RESULT_CHARS = 500


def run_status(item: Json) -> str:
    """The status of a run, a job or an execution in the words of /runs, which the three APIs have in common."""
    status = str(item.get("status") or "-").upper()
    if status in ("PENDING", "RUNNING", "ACTIVE") and (item.get("cancelRequestedAt") or item.get("cancel")):
        return "CANCELLING"
    if status == "ACTIVE":
        return "RUNNING" if item.get("startedAt") or item.get("start_time") else "PENDING"
    return text(_spelled(status))


def _spelled(status: str) -> str:
    return "CANCELLED" if status == "CANCELED" else status


def took_sec(run: Json, now: float | None = None) -> float | None:
    """From start to end, or to now while it runs."""
    start, end = run.get("start_time"), run.get("end_time") or now
    return end - start if isinstance(start, int | float) and isinstance(end, int | float) else None


def joined(value: object, *names: str, separator: str = " ") -> str:
    """The fields of an object that are set."""
    found = as_object(value)
    return separator.join(str(found[name]) for name in names if found.get(name))


def as_object(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


RUN_FACTS = Table(
    ("run", "run_id"),
    ("status", run_status),
    ("flow", "flow_name"),
    ("tag", "tag"),
    ("labels", "tags"),
    ("worker", "worker_id"),
    ("attempt", "attempt"),
    ("code", "code_version"),
    ("wheels", lambda run: [one.get("name") for one in run.get("wheels") or () if isinstance(one, Mapping)]),
    ("submitted", "submitted_at", moment),
    ("started", "start_time", moment),
    ("ended", "end_time", moment),
    ("took", took_sec, duration),
    ("limit", "timeout_sec", duration),
    ("result", lambda run: result_line(run)),
    ("error", "error"),
    ("stopped", lambda run: joined(run.get("timeout"), "how")),
    ("replay of", "replay_of"),
    ("rerun of", "rerun_of"),
    ("cancel", lambda run: joined(run.get("cancel"), "how", "reason")),
)


def result_line(run: Json) -> str | None:
    """What the run returned, as one line of JSON; None if there is no result."""
    if run.get("result_truncated"):
        return "too large to be kept"
    if run.get("result") is None:
        return None
    line = inline_json(run["result"])
    return (
        line
        if len(line) <= RESULT_CHARS
        else f"{line[:RESULT_CHARS]}… (whole: pyoco-client result {run.get('run_id')})"
    )


def no_result(run: Json) -> tuple[str, str | None, str]:
    """Why a run has no result to print, the id of its error, and what to do."""
    run_id, status, error = text(run.get("run_id")), text(run.get("status")), run.get("error")
    if run.get("result_truncated"):
        found = as_object(run.get("result")).get("bytes")
        size = f" ({found} bytes)" if isinstance(found, int) else ""
        return (
            localized(f"the result of run {run_id} was too large to be kept{size}",
                      f"run {run_id} の結果は大きすぎるため保存されていません{size}"),
            None,
            localized("Let the task write it to a file, and return its place.",
                      "task で結果をファイルに書き、その場所を返してください。"),
        )  # fmt: skip
    if status not in TERMINAL:
        return (
            localized(f"run {run_id} has no result yet: it is {status}",
                      f"run {run_id} の結果はまだありません。状態は {status} です"),
            None,
            localized(f"Wait for it: pyoco-client result {run_id} --wait",
                      f"終了を待つには: pyoco-client result {run_id} --wait"),
        )  # fmt: skip
    if status == "COMPLETED":
        return (
            localized(f"run {run_id} has no result: which task is its last one is not known",
                      f"run {run_id} には結果がありません。どの task が最後か分かりません"),
            None,
            localized(f"See the outputs of all tasks: pyoco-client tasks {run_id}",
                      f"全 task の出力を見るには: pyoco-client tasks {run_id}"),
        )  # fmt: skip
    why = f": {escape_line(error)}" if error else ""
    code = run.get("error_code")
    return (
        localized(f"run {run_id} has no result: it is {status}{why}",
                  f"run {run_id} には結果がありません。状態は {status} です{why}"),
        code if isinstance(code, str) else None,
        localized(f"See why: pyoco-client explain {run_id}", f"理由を見るには: pyoco-client explain {run_id}"),
    )  # fmt: skip


def last_lines(run: Json) -> list[str]:
    """The last output of a failed run, under a heading; nothing if there is none."""
    lines = run.get("last_lines")
    if not isinstance(lines, list) or not lines:
        return []
    return ["last lines:", *(f"  {escape_line(one)}" for one in lines)]


def task_rows(run: Json, now: float | None = None) -> list[Row]:
    """One row per task, in the order of the flow; `now` adds the elapsed time of running tasks."""
    records = run.get("task_records") or {}
    return [task_row(name, status, records.get(name) or {}, now) for name, status in (run.get("tasks") or {}).items()]


def task_row(name: str, status: str, record: Json, now: float | None = None) -> Row:
    mark = MARKS.get(status) or (SPINNER[int(now * 10) % len(SPINNER)] if now is not None else "*")
    return (
        mark,
        text(name),
        text(_spelled(status)),
        duration(_task_sec(status, record, now)),
        _task_detail(status, record),
    )


def _task_sec(status: str, record: Json, now: float | None) -> float | None:
    milliseconds, started_at = record.get("duration_ms"), record.get("started_at")
    if isinstance(milliseconds, int | float):
        return milliseconds / 1000
    if now is not None and status == "RUNNING" and isinstance(started_at, int | float):
        return now - started_at
    return None


def _task_detail(status: str, record: Json) -> str:
    """The error of a failed task; otherwise progress, message, what was chosen, why it was canceled, and attempt."""
    if record.get("error"):
        return escape_line(record["error"])
    parts = []
    if status == "RUNNING" and isinstance(record.get("progress"), int | float):
        parts.append(progress_bar(record["progress"]))
    if record.get("message"):
        parts.append(escape_line(record["message"]))
    if record.get("choice"):
        parts.append(f"chosen: {escape_line(record['choice'])}")
    if record.get("reason"):
        parts.append(escape_line(record["reason"]))
    if isinstance(record.get("attempt"), int) and record["attempt"] > 1:
        parts.append(f"(attempt {record['attempt']})")
    return " ".join(parts)


def progress_bar(percent: float) -> str:
    """A progress bar of fixed width with the percentage."""
    share = min(100.0, max(0.0, percent)) if math.isfinite(percent) else 0.0
    full = round(share / 100 * BAR_WIDTH)
    return f"{'█' * full}{'░' * (BAR_WIDTH - full)} {share:3.0f}%"


def fit_rows(rows: Sequence[Row], room: int) -> tuple[list[Row], dict[str, int]]:
    """The most important rows that fit, in their order; and how many of each status are left out."""
    if len(rows) <= room:
        return list(rows), {}
    rank = {"FAILED": 0, "WAITING": 1, "RUNNING": 1, "CANCELLED": 2, "CANCELED": 2, "READY": 3, "PENDING": 3, "IDLE": 3}
    by_rank = sorted(range(len(rows)), key=lambda place: (rank.get(rows[place][2], 4), place))
    shown = set(by_rank[: max(0, room - 1)])
    left_out: dict[str, int] = {}
    for place, row in enumerate(rows):
        if place not in shown:
            left_out[row[2]] = left_out.get(row[2], 0) + 1
    return [row for place, row in enumerate(rows) if place in shown], left_out


def changes(before: Json, after: Json) -> list[str]:
    """One line per change: the status of the run, and the status or progress of each task."""
    when = stamp(after.get("updated_at"))
    of_run = []
    if after.get("status") != before.get("status"):
        worker = f" on {text(after['worker_id'])}" if after.get("worker_id") else ""
        of_run.append(f"{when} run {text(after.get('status'))}{worker}")
    known, records = before.get("tasks") or {}, after.get("task_records") or {}
    of_tasks = []
    for name, status in (after.get("tasks") or {}).items():
        record, old = records.get(name) or {}, (before.get("task_records") or {}).get(name) or {}
        if known.get(name) != status or _progress_step(record) > _progress_step(old):
            _, shown, _, time, detail = task_row(name, status, record)
            parts = (when, "task", shown, status, time, detail)
            of_tasks.append(" ".join(part for part in parts if part not in ("-", "")))
    # The end of a run comes after the ends of its tasks, its start before their starts.
    return of_tasks + of_run if after.get("status") in TERMINAL else of_run + of_tasks


def _progress_step(record: Json) -> int:
    """Progress in steps of ten: a task that reports every percent must not fill a log."""
    progress = record.get("progress")
    return int(progress // 10) if isinstance(progress, int | float) and math.isfinite(progress) else -1


def summary(kind: str, item_id: object, item: Json) -> str:
    """The last line about a run, an execution or a job: status, duration, tasks by status, error."""
    statuses = [_spelled(str(one)) for one in as_object(item.get("tasks")).values()]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    took = took_sec(item)
    line = f"{kind} {text(item_id)} {run_status(item)}"
    line += f" in {duration(took)}" if took is not None else ""
    line += f" ({escape_line(counts)})" if counts else ""
    return f"{line}: {escape_line(item['error'])}" if item.get("error") else line


def explanation(answer: Json) -> list[str]:
    """Why a run has its status: a summary, then each reason and its hint."""
    lines = [f"{text(answer.get('run_id'))} {text(answer.get('status'))}"]
    if answer.get("summary"):
        lines.append(escape_line(answer["summary"]))
    for reason in answer.get("reasons") or []:
        # The first reason is often the summary itself; only its hint is new.
        if reason.get("message") != answer.get("summary") or not reason.get("message"):
            lines.append(f"- {text(reason.get('message') or reason.get('code'))}")
        if reason.get("hint"):
            lines.append(f"  → {escape_line(reason['hint'])}")
    return lines
