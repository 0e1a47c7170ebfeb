"""Runs, tasks and workers as words: plain functions from the server's JSON to rows and lines. Nothing is printed here.

Whatever comes from a server may be missing, may be of a newer version, and may have been named by somebody unkind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyoco_server.cli.plain import line

Json = Mapping[str, Any]
Row = Sequence[str]

TERMINAL = ("COMPLETED", "FAILED", "CANCELLED", "CANCELED")
STYLES = {
    "COMPLETED": "green",
    "SUCCEEDED": "green",
    "FAILED": "bold red",
    "CANCELLED": "yellow",
    "CANCELED": "yellow",
    "CANCELLING": "yellow",
    "WAITING": "magenta",
    "RUNNING": "cyan",
    "ACTIVE": "cyan",
    "IDLE": "green",
    "DISCONNECTED": "red",
    "PENDING": "dim",
    "STOPPED_GRACEFUL": "dim",
}
# A node that is idle has not begun; a worker that is idle is as it should be.
NODE_STYLES = STYLES | {"IDLE": "dim", "READY": ""}
MARKS = {
    "SUCCEEDED": "✓",
    "FAILED": "✗",
    "CANCELLED": "■",
    "CANCELED": "■",
    "PENDING": "·",
    "IDLE": "·",
    "READY": "○",
    "WAITING": "?",
}
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
RUN_HEAD = ("RUN_ID", "STATUS", "FLOW", "TAG", "UPDATED", "WORKER", "ERROR")
WORKER_HEAD = ("WORKER_ID", "STATE", "TAGS", "SLOTS", "LAST_SEEN", "RUN", "HIDDEN", "FLOWS", "WHEELS")
WHEEL_HEAD = ("WHEEL", "SIZE", "TAGS", "MODIFIED", "SHA256")
WHEEL_EVENT_HEAD = ("WHEN", "ACTION", "WHEEL", "TAGS", "ACTOR", "SOURCE")
LETTER_HEAD = ("SEQ", "TIME", "REASON", "RUN_ID", "FLOW", "TAG", "WORKER", "ERROR")
TASK_HEAD = ("", "TASK", "STATUS", "TIME", "DETAIL")
BAR_WIDTH = 20


def text(value: object) -> str:
    """A value in a cell; `-` where there is none."""
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, list | tuple):
        return line(",".join(str(one) for one in value))
    return line(value)


def moment(unix_sec: object) -> str:
    """A time of the server's, in the zone of the person who reads it."""
    if not isinstance(unix_sec, int | float) or isinstance(unix_sec, bool):
        return "-"
    try:
        return datetime.fromtimestamp(unix_sec, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "-"


def duration(seconds: object) -> str:
    """How long, with the two units that matter."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return "-"
    seconds = max(0.0, float(seconds))
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def run_row(run: Json) -> Row:
    return (
        text(run.get("run_id")),
        text(run.get("status")),
        text(run.get("flow_name")),
        text(run.get("tag")),
        moment(run.get("updated_at")),
        text(run.get("worker_id")),
        text(run.get("error")),
    )


def worker_row(worker: Json) -> Row:
    return (
        text(worker.get("worker_id")),
        text(worker.get("state")),
        text(worker.get("tags")),
        text(worker.get("slots")),
        moment(worker.get("last_seen_at")),
        text(worker.get("current_run_id")),
        "yes" if worker.get("hidden") else "-",
        _count(worker.get("flows")),
        wheels_of(worker.get("wheel_sync")),
    )


def _count(names: object) -> str:
    return str(len(names)) if isinstance(names, list) and names else "-"


def letter_row(letter: Json) -> Row:
    return (
        text(letter.get("seq")),
        moment(letter.get("timestamp")),
        text(letter.get("reason")),
        text(letter.get("run_id")),
        text(letter.get("flow_name")),
        text(letter.get("tag")),
        text(letter.get("worker_id")),
        text(letter.get("error")),
    )


def wheels_of(sync: object) -> str:
    """How the wheels of a worker stand: how many it has, and what is wrong with the others."""
    if not isinstance(sync, Mapping):
        return "-"
    result, installed, failed = sync.get("last_result"), sync.get("installed_count"), sync.get("failed_count")
    if result == "partial" and failed:
        return f"{text(installed)} ({text(failed)} failed)"
    return f"{text(installed)} ({text(result)})" if result not in ("ok", None) else text(installed)


def wheel_row(wheel: Json) -> Row:
    return (
        text(wheel.get("name")),
        size(wheel.get("size_bytes")),
        text(wheel.get("tags")),
        moment(wheel.get("modified")),
        text(str(wheel.get("sha256_hex") or "")[:12]),
    )


def wheel_event_row(event: Json) -> Row:
    actor, source = event.get("actor"), event.get("source")
    who = [actor.get(key) for key in ("tenant_id", "api_key_id", "sub")] if isinstance(actor, Mapping) else []
    return (
        moment(event.get("occurred_at")),
        text(event.get("action")),
        text(event.get("wheel_name")),
        text(event.get("tags")),
        text("/".join(str(one) for one in who if one)),
        text(source.get("client") if isinstance(source, Mapping) else None),
    )


def size(count: object) -> str:
    """How many bytes, in the unit that fits."""
    if not isinstance(count, int | float) or isinstance(count, bool) or not math.isfinite(count):
        return "-"
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def run_facts(run: Json) -> list[tuple[str, str]]:
    """What is worth knowing of one run, as name and value; what it does not say is left out."""
    cancel, timeout = run.get("cancel") or {}, run.get("timeout") or {}
    facts = [
        ("run", text(run.get("run_id"))),
        ("status", text(run.get("status"))),
        ("flow", text(run.get("flow_name"))),
        ("tag", text(run.get("tag"))),
        ("labels", text(run.get("tags"))),
        ("worker", text(run.get("worker_id"))),
        ("attempt", text(run.get("attempt"))),
        ("wheels", text([one.get("name") for one in run.get("wheels") or () if isinstance(one, Mapping)])),
        ("submitted", moment(run.get("submitted_at"))),
        ("started", moment(run.get("start_time"))),
        ("ended", moment(run.get("end_time"))),
        ("took", duration(took_sec(run))),
        ("limit", duration(run.get("timeout_sec"))),
        ("error", text(run.get("error"))),
        ("stopped", text(timeout.get("how"))),
        ("replay of", text(run.get("replay_of"))),
        ("cancel", text(" ".join(str(cancel[key]) for key in ("how", "reason") if cancel.get(key)))),
    ]
    return [(name, value) for name, value in facts if value != "-"]


def last_words(run: Json) -> list[str]:
    """What a failed run wrote last, under a heading; nothing where there is nothing."""
    lines = run.get("last_lines")
    if not isinstance(lines, list) or not lines:
        return []
    return ["last lines:", *(f"  {line(one)}" for one in lines)]


def took_sec(run: Json, now: float | None = None) -> float | None:
    """From start to end, or to now while it runs."""
    start, end = run.get("start_time"), run.get("end_time") or now
    return end - start if isinstance(start, int | float) and isinstance(end, int | float) else None


def task_rows(run: Json, now: float | None = None) -> list[Row]:
    """One row per task, in the order of the flow; with `now` the running ones show how long they have been at it."""
    records = run.get("task_records") or {}
    return [task_row(name, status, records.get(name) or {}, now) for name, status in (run.get("tasks") or {}).items()]


def task_row(name: str, status: str, record: Json, now: float | None = None) -> Row:
    mark = MARKS.get(status) or (SPINNER[int(now * 10) % len(SPINNER)] if now is not None else "*")
    return (mark, text(name), text(status), duration(task_sec(status, record, now)), task_detail(status, record))


def task_sec(status: str, record: Json, now: float | None) -> float | None:
    milliseconds, started_at = record.get("duration_ms"), record.get("started_at")
    if isinstance(milliseconds, int | float):
        return milliseconds / 1000
    if now is not None and status == "RUNNING" and isinstance(started_at, int | float):
        return now - started_at
    return None


def task_detail(status: str, record: Json) -> str:
    """The error of a failed task; progress and message of one that reports them."""
    if record.get("error"):
        return line(record["error"])
    parts = []
    if status == "RUNNING" and isinstance(record.get("progress"), int | float):
        parts.append(bar(record["progress"]))
    if record.get("message"):
        parts.append(line(record["message"]))
    if isinstance(record.get("attempt"), int) and record["attempt"] > 1:
        parts.append(f"(attempt {record['attempt']})")
    return " ".join(parts)


def bar(percent: float) -> str:
    """A progress bar of fixed width with its figure."""
    share = min(100.0, max(0.0, percent)) if math.isfinite(percent) else 0.0
    full = round(share / 100 * BAR_WIDTH)
    return f"{'█' * full}{'░' * (BAR_WIDTH - full)} {share:3.0f}%"


def fitting(rows: Sequence[Row], room: int) -> tuple[list[Row], dict[str, int]]:
    """The rows that fit, those that need an eye first, in their order; and how many of each status are left out."""
    if len(rows) <= room:
        return list(rows), {}
    rank = {"FAILED": 0, "WAITING": 1, "RUNNING": 1, "CANCELLED": 2, "CANCELED": 2, "READY": 3, "PENDING": 3, "IDLE": 3}
    by_need = sorted(range(len(rows)), key=lambda place: (rank.get(rows[place][2], 4), place))
    shown = set(by_need[: max(0, room - 1)])
    left_out: dict[str, int] = {}
    for place, row in enumerate(rows):
        if place not in shown:
            left_out[row[2]] = left_out.get(row[2], 0) + 1
    return [row for place, row in enumerate(rows) if place in shown], left_out


def changes(before: Json, after: Json) -> list[str]:
    """One line for each thing that is news in `after`: the run's status, and the status of each task."""
    when = stamp(after.get("updated_at"))
    told = []
    if after.get("status") != before.get("status"):
        worker = f" on {text(after['worker_id'])}" if after.get("worker_id") else ""
        told.append(f"{when} run {text(after.get('status'))}{worker}")
    seen, records = before.get("tasks") or {}, after.get("task_records") or {}
    news = []
    for name, status in (after.get("tasks") or {}).items():
        record, old = records.get(name) or {}, (before.get("task_records") or {}).get(name) or {}
        if seen.get(name) != status or _step(record) > _step(old):
            _, shown, _, time, detail = task_row(name, status, record)
            news.append(" ".join(part for part in (when, "task", shown, status, time, detail) if part not in ("-", "")))
    # The end of a run is the last word; its beginning the first.
    return news + told if after.get("status") in TERMINAL else told + news


def _step(record: Json) -> int:
    """Progress in steps of ten: a task that reports every percent need not fill a log."""
    progress = record.get("progress")
    return int(progress // 10) if isinstance(progress, int | float) and math.isfinite(progress) else -1


def stamp(unix_sec: object) -> str:
    """A time for logs: UTC, to the millisecond."""
    if not isinstance(unix_sec, int | float):
        return "-"
    try:
        return datetime.fromtimestamp(unix_sec, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return "-"


def summary(run: Json) -> str:
    """The last line about a run that was watched."""
    tasks: Iterable[str] = (run.get("tasks") or {}).values()
    counts = [f"{sum(one == status for one in tasks)} {status}" for status in dict.fromkeys(tasks)]
    took = took_sec(run)
    parts = [f"run {text(run.get('run_id'))} {text(run.get('status'))}"]
    parts += [f"in {duration(took)}"] if took is not None else []
    parts += [f"({text(', '.join(counts))})"] if counts else []
    parts += [f": {line(run['error'])}"] if run.get("error") else []
    return " ".join(parts).replace(" : ", ": ")


def explained(answer: Json) -> list[str]:
    """Why a run is where it is: the sentence, then each reason and what to do about it."""
    told = [f"{text(answer.get('run_id'))} {text(answer.get('status'))}"]
    if answer.get("summary"):
        told.append(line(answer["summary"]))
    for reason in answer.get("reasons") or []:
        # The most telling reason is often the sentence itself; what to do about it is still to be said.
        if reason.get("message") != answer.get("summary") or not reason.get("message"):
            told.append(f"- {text(reason.get('message') or reason.get('code'))}")
        if reason.get("hint"):
            told.append(f"  → {line(reason['hint'])}")
    return told
