"""Hints of `/executions` by guard, beyond those of the error catalogue."""

from __future__ import annotations

from collections.abc import Mapping

from pyoco_server.errors import PyocoError, RunNotFound

_EXECUTION = "/executions/{executionId}"

# By the names of `RejectionReason`; the others have the hint of the catalogue.
GUARD_HINTS: Mapping[str, tuple[str, str]] = {
    "FINISHED": (
        "A finished execution does not change; create a new one if it is still needed.",
        "終了した execution は変更できません。必要であれば新しく作成してください。",
    ),
    "NOT_FINISHED": ("Wait until it ends, or cancel it first.", "終了を待つか、先に取り消してください。"),
    "NOT_STARTED": (f"Start it first: POST {_EXECUTION}/start", f"先に start してください: POST {_EXECUTION}/start"),
    "CANCEL_REQUESTED": (
        "Stop. If you hold a node, send success or fail once: it is rejected, but confirms that you stopped.",
        "作業を中止してください。担当中の node には success か fail を一度送ってください"
        "（拒否されますが、停止の報告になります）。",
    ),
    "FENCED": (
        "Stop: another worker has taken over the node, and your reports are rejected.",
        "作業を中止してください。この node は別の担当に引き継がれています。",
    ),
    "GRAPH_DECIDES": (
        f"Nothing to do: it completes with its last node. To end it earlier, POST {_EXECUTION}/cancel or …/fail",
        f"対応は不要です。最後の node で完了します。途中で終える場合: POST {_EXECUTION}/cancel または …/fail",
    ),
    "UNKNOWN_NODE": (f"List its nodes: GET {_EXECUTION}", f"node の一覧を確認してください: GET {_EXECUTION}"),
    "NODE_NOT_READY": (
        "Wait until the nodes before it have succeeded, or get a ready one by POST /executions:claim.",
        "先行する node の成功を待つか、POST /executions:claim で実行可能な node を取得してください。",
    ),
    "NODE_NOT_RUNNING": (
        f"Start it first: POST /executions:claim, or POST {_EXECUTION}/nodes/{{nodeId}}/start",
        f"先に取得してください: POST /executions:claim または POST {_EXECUTION}/nodes/{{nodeId}}/start",
    ),
    "NODE_NOT_WAITING": ("List the waiting nodes: GET /waits", "応答待ちの node を確認してください: GET /waits"),
    "NODE_FINISHED": (
        f"Nothing to do: GET {_EXECUTION} shows how it ended.",
        f"対応は不要です。結果は GET {_EXECUTION} で確認できます。",
    ),
    "NODE_HELD": (
        "Claim another one (POST /executions:claim); this one is free when its holder ends it or its lease expires.",
        "別の node を取得してください（POST /executions:claim）。この node は担当の終了か lease 切れまで空きません。",
    ),
    "INVALID_ATTEMPT": (
        f"Omit `attempt`, or send the next one: GET {_EXECUTION} shows the last.",
        f"attempt を省略するか、次の値を送ってください。直近の値は GET {_EXECUTION} で確認できます。",
    ),
    "WRONG_RESUME_KEY": (
        "Send the `waitKey` that GET /waits shows as `resumeKey`.",
        "GET /waits の waitKey を resumeKey に指定してください。",
    ),
}

_NOT_FOUND = (
    "Check the executionId (GET /executions); finished ones are removed after PYOCO_RUN_RETENTION_SEC.",
    "executionId を確認してください（GET /executions）。終了したものは PYOCO_RUN_RETENTION_SEC 経過後に削除されます。",
)


def message_of(error: PyocoError, language: str) -> str:
    """The message of an error. For a malformed id the core only knows that the run does not exist."""
    if isinstance(error, RunNotFound) and error.detail == error.message():
        error = RunNotFound(f"there is no execution {error.facts.get('run_id', '')}".rstrip())
    return error.detail_in(language)


def hint_of(error: PyocoError, language: str) -> str:
    """The hint of the guard, else of the catalogue."""
    general = _NOT_FOUND if isinstance(error, RunNotFound) else (error.hint, error.hint_ja)
    hint = GUARD_HINTS.get(str(error.facts.get("guard")), general)
    return hint[1] if language == "ja" else hint[0]
