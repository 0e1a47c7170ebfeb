"""What `/executions` says of errors beyond the catalogue: what to do next, by guard. It decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

from pyoco_server.errors import PyocoError, RunNotFound

_EXECUTION = "/executions/{executionId}"

# By the names of execution.refusal.Why; for the others the words of the catalogue are all there is to say.
GUARD_HINTS: Mapping[str, tuple[str, str]] = {
    "FINISHED": (
        "It stays as it is; create a new execution if it is still wanted.",
        "終了した execution は変更できません。必要であれば新しく作成してください。",
    ),
    "NOT_FINISHED": (
        "Wait for its end, or cancel it first.",
        "終了を待つか、先に取り消してください。",
    ),
    "NOT_STARTED": (
        f"Start it first: POST {_EXECUTION}/start",
        f"先に start してください: POST {_EXECUTION}/start",
    ),
    "CANCEL_REQUESTED": (
        "Stop. If you hold a node, say success or fail once: it is refused too, but counts as having stopped.",
        "作業を中止してください。担当中の node には success か fail を一度送ってください"
        "（拒否されますが、停止の報告になります）。",
    ),
    "FENCED": (
        "Stop: somebody else has taken the node over, and nothing that you say of it counts any more.",
        "作業を中止してください。この node は別の担当に引き継がれています。",
    ),
    "GRAPH_DECIDES": (
        f"Nothing to do: it is complete with its last node. To end it before, POST {_EXECUTION}/cancel or …/fail",
        f"対応は不要です。最後の node で完了します。途中で終える場合: POST {_EXECUTION}/cancel または …/fail",
    ),
    "UNKNOWN_NODE": (
        f"See which nodes it has: GET {_EXECUTION}",
        f"node の一覧を確認してください: GET {_EXECUTION}",
    ),
    "NODE_NOT_READY": (
        "Wait until the nodes before it have succeeded, or let POST /executions:claim give you one whose turn it is.",
        "先行する node の成功を待つか、POST /executions:claim で実行可能な node を取得してください。",
    ),
    "NODE_NOT_RUNNING": (
        f"Take it first: POST /executions:claim, or POST {_EXECUTION}/nodes/{{nodeId}}/start",
        f"先に取得してください: POST /executions:claim または POST {_EXECUTION}/nodes/{{nodeId}}/start",
    ),
    "NODE_NOT_WAITING": (
        "See what waits for an answer: GET /waits",
        "応答待ちの node を確認してください: GET /waits",
    ),
    "NODE_FINISHED": (
        f"Nothing to do: GET {_EXECUTION} says how it ended.",
        f"対応は不要です。結果は GET {_EXECUTION} で確認できます。",
    ),
    "NODE_HELD": (
        "Take another one (POST /executions:claim); this one is free when its holder ends it or its lease is over.",
        "別の node を取得してください（POST /executions:claim）。この node は担当の終了か lease 切れまで空きません。",
    ),
    "INVALID_ATTEMPT": (
        f"Leave `attempt` out, or send the next one: GET {_EXECUTION} says which was the last.",
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


def message_of(error: PyocoError) -> str:
    """What happened. Of an id that cannot be one, the core says only that there is no such run."""
    if isinstance(error, RunNotFound) and error.detail == error.message():
        return f"there is no execution {error.facts.get('run_id', '')}".rstrip()
    return error.detail


def hint_of(error: PyocoError, language: str) -> str:
    """What to do about it: what the guard advises, else what the catalogue does."""
    general = _NOT_FOUND if isinstance(error, RunNotFound) else (error.hint, error.hint_ja)
    told = GUARD_HINTS.get(str(error.facts.get("guard")), general)
    return told[1] if language == "ja" else told[0]
