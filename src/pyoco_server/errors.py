"""The error catalogue: every error a user can meet, with its ids, its kind and its words in English and Japanese.

Nothing here knows HTTP, queues or exit codes: the edges map `Kind` to what they speak. An error class is the only place
where its id and its words stand; `docs/reference/errors.md` is generated from this module.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class Kind(Enum):
    """What sort of trouble it is; each edge maps kinds, never classes."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    PRECONDITION = "precondition"
    RANGE = "range"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class PyocoError(Exception):
    """something went wrong"""

    err_id: ClassVar[str] = "ERR-PYOCO-0000"
    msg_id: ClassVar[str] = "MSG-PYOCO-0000"
    kind: ClassVar[Kind] = Kind.INTERNAL
    # The word for programs: one table for all dialects, as stable as the ids.
    code: ClassVar[str] = "ERROR"
    message_ja: ClassVar[str] = "問題が発生しました"
    hint: ClassVar[str] = "See the server's log for the request id."
    hint_ja: ClassVar[str] = "サーバーのログで request id を確認してください。"

    def __init__(self, detail: str | None = None, **facts: object) -> None:
        self.detail = detail or self.message()
        self.facts = facts
        super().__init__(self.detail)

    @classmethod
    def message(cls) -> str:
        """The catalogue's English sentence for this error."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    @classmethod
    def ids(cls) -> dict[str, str]:
        """The fields by which a log line names this error."""
        return {"err_id": cls.err_id, "msg_id": cls.msg_id}


class GatewayUnreachable(PyocoError):
    """the gateway cannot be reached"""

    err_id, msg_id, kind = "ERR-PYOCO-0001", "MSG-PYOCO-0001", Kind.UNAVAILABLE
    code = "GATEWAY_UNREACHABLE"
    message_ja = "稼働確認に失敗しました"
    hint = "Start the gateway (pyoco-server up) and check the address."
    hint_ja = "Gateway を起動し（pyoco-server up）、アドレスを確認してください。"


class InvalidRequest(PyocoError):
    """invalid request"""

    err_id, msg_id, kind = "ERR-PYOCO-0002", "MSG-PYOCO-0002", Kind.INVALID
    code = "INVALID_REQUEST"
    message_ja = "リクエストが不正です"
    hint = "Correct the input as the detail says and send it again."
    hint_ja = "detail に従って入力を修正し、再送してください。"


class RequestTooLarge(PyocoError):
    """request too large"""

    err_id, msg_id, kind = "ERR-PYOCO-0002", "MSG-PYOCO-0002", Kind.TOO_LARGE
    code = "REQUEST_TOO_LARGE"
    message_ja = "リクエストが大きすぎます"
    hint = "Send less: put large data into a file or an object store and pass its address."
    hint_ja = "データを減らすか、大きなデータは別の場所に置いて参照を渡してください。"


class BrokerUnavailable(PyocoError):
    """nats unavailable"""

    err_id, msg_id, kind = "ERR-PYOCO-0003", "MSG-PYOCO-0003", Kind.UNAVAILABLE
    code = "UNAVAILABLE"
    message_ja = "NATSが利用できません"
    hint = "Try again in a moment; if it lasts, check that NATS is running and reachable."
    hint_ja = "少し待って再試行してください。続く場合は NATS の稼働と疎通を確認してください。"


class IndexUnavailable(PyocoError):
    """the run index is being rebuilt"""

    err_id, msg_id, kind = "ERR-PYOCO-0003", "MSG-PYOCO-0003", Kind.UNAVAILABLE
    code = "UNAVAILABLE"
    message_ja = "runの索引を再構築しています"
    hint = "Try again in a moment; if it lasts, check the gateway's log and the disk that holds the run index."
    hint_ja = "少し待って再試行してください。続く場合は Gateway のログと索引のディスクを確認してください。"


class Unanswered(BrokerUnavailable):
    """nats unavailable; what was asked of it may have been done all the same"""


class OrphanRunPossible(PyocoError):
    """a run that was not accepted may have been left behind (best-effort cleanup failed)"""

    err_id, msg_id, kind = "ERR-PYOCO-0004", "MSG-PYOCO-0004", Kind.UNAVAILABLE
    code = "ORPHAN_POSSIBLE"
    message_ja = "孤児runが残っている可能性があります（best-effort cleanup失敗）"
    hint = "Look the run up by its id once NATS is back; cancel it if it is there."
    hint_ja = "NATS 復旧後に run_id を確認し、残っていれば取り消してください。"


class RunNotFound(PyocoError):
    """run not found"""

    err_id, msg_id, kind = "ERR-PYOCO-0005", "MSG-PYOCO-0005", Kind.NOT_FOUND
    code = "EXECUTION_NOT_FOUND"
    message_ja = "runが見つかりません"
    hint = "Check the id; finished runs are removed after PYOCO_RUN_RETENTION_SEC."
    hint_ja = "id を確認してください。終了した run は PYOCO_RUN_RETENTION_SEC 経過後に削除されます。"


class FlowNotFound(PyocoError):
    """flow not found"""

    err_id, msg_id, kind = "ERR-PYOCO-0006", "MSG-PYOCO-0006", Kind.NOT_FOUND
    code = "FLOW_NOT_FOUND"
    message_ja = "flowが見つかりません"
    hint = "Check flow_name, and that the workers of this tag serve it."
    hint_ja = "flow_name と、その tag の worker が該当 flow を持つことを確認してください。"


class ExecutionFailedError(PyocoError):
    """execution failed"""

    err_id, msg_id, kind = "ERR-PYOCO-0007", "MSG-PYOCO-0007", Kind.INTERNAL
    code = "EXECUTION_FAILED"
    message_ja = "実行に失敗しました"
    hint = "Check input, code and dependencies of the flow, then submit it again."
    hint_ja = "入力・コード・依存を確認し、再投入してください。"


class TerminalNotRecorded(PyocoError):
    """the final state could not be recorded"""

    err_id, msg_id, kind = "ERR-PYOCO-0008", "MSG-PYOCO-0008", Kind.UNAVAILABLE
    code = "TERMINAL_NOT_RECORDED"
    message_ja = "terminal状態の記録に失敗しました"
    hint = "Nothing to do: the job is delivered again once NATS is back."
    hint_ja = "対応は不要です。NATS 復旧後に再配送されます。"


class InProgressFailed(PyocoError):
    """in_progress could not be sent"""

    err_id, msg_id, kind = "ERR-PYOCO-0009", "MSG-PYOCO-0009", Kind.UNAVAILABLE
    code = "IN_PROGRESS_FAILED"
    message_ja = "in_progress ACK の送信に失敗しました"
    hint = "Check the worker's connection to NATS; the job may be delivered again."
    hint_ja = "worker と NATS の接続を確認してください。再配送される可能性があります。"


class SnapshotTooLarge(PyocoError):
    """snapshot too large"""

    err_id, msg_id, kind = "ERR-PYOCO-0010", "MSG-PYOCO-0010", Kind.TOO_LARGE
    code = "SNAPSHOT_TOO_LARGE"
    message_ja = "スナップショットが大きすぎます"
    hint = "Raise PYOCO_MAX_RUN_SNAPSHOT_BYTES, or use fewer tasks or smaller params."
    hint_ja = "PYOCO_MAX_RUN_SNAPSHOT_BYTES を上げるか、タスク数や params を減らしてください。"


class DeadLetterFailed(PyocoError):
    """the dead letter could not be published (best-effort)"""

    err_id, msg_id, kind = "ERR-PYOCO-0011", "MSG-PYOCO-0011", Kind.UNAVAILABLE
    code = "DEAD_LETTER_FAILED"
    message_ja = "DLQへのpublishに失敗しました（best-effort）"
    hint = "The run's snapshot names the cause."
    hint_ja = "run スナップショットで原因を確認してください。"


class InvalidJob(PyocoError):
    """invalid job received"""

    err_id, msg_id, kind = "ERR-PYOCO-0012", "MSG-PYOCO-0012", Kind.INVALID
    code = "INVALID_JOB"
    message_ja = "不正なジョブを受信しました"
    hint = "Check the program that published the job."
    hint_ja = "ジョブの producer と subject を確認してください。"


class LoggingFailed(PyocoError):
    """logging failed (best-effort)"""

    err_id, msg_id, kind = "ERR-PYOCO-0013", "MSG-PYOCO-0013", Kind.INVALID
    code = "LOGGING_FAILED"
    message_ja = "ログ出力に失敗しました（best-effort）"
    hint = "Check PYOCO_LOG_LEVEL and PYOCO_LOG_FORMAT."
    hint_ja = "PYOCO_LOG_LEVEL と PYOCO_LOG_FORMAT を確認してください。"


class CredentialsMissing(PyocoError):
    """credentials required"""

    err_id, msg_id, kind = "ERR-PYOCO-0014", "MSG-PYOCO-0014", Kind.UNAUTHENTICATED
    code = "UNAUTHENTICATED"
    message_ja = "API key が必要です"
    hint = "Send an API key (header X-API-Key, pyoco-client --api-key) or a bearer token."
    hint_ja = "API key（X-API-Key ヘッダー、pyoco-client --api-key）または bearer token を付けてください。"


class InvalidApiKey(PyocoError):
    """invalid API key"""

    err_id, msg_id, kind = "ERR-PYOCO-0015", "MSG-PYOCO-0015", Kind.FORBIDDEN
    code = "INVALID_API_KEY"
    message_ja = "API key が無効です"
    hint = "The key is unknown, revoked or expired: ask for a new one (pyoco-server-admin api-key create)."
    hint_ja = "API key が未登録・失効・期限切れです。再発行してください（pyoco-server-admin api-key create）。"


class WorkflowTooLarge(PyocoError):
    """workflow file too large"""

    err_id, msg_id, kind = "ERR-PYOCO-0016", "MSG-PYOCO-0016", Kind.TOO_LARGE
    code = "WORKFLOW_TOO_LARGE"
    message_ja = "ワークフローファイルが大きすぎます"
    hint = "Make flow.yaml smaller, or raise PYOCO_WORKFLOW_YAML_MAX_BYTES on the server."
    hint_ja = "flow.yaml を小さくするか、サーバーの PYOCO_WORKFLOW_YAML_MAX_BYTES を上げてください。"


class InvalidListQuery(PyocoError):
    """invalid list query"""

    err_id, msg_id, kind = "ERR-PYOCO-0017", "MSG-PYOCO-0017", Kind.INVALID
    code = "INVALID_LIST_QUERY"
    message_ja = "一覧クエリが不正です"
    hint = "Correct the query parameter that the detail names."
    hint_ja = "detail が示すクエリパラメータを修正してください。"


class InvalidUsage(PyocoError):
    """invalid command line or setting"""

    err_id, msg_id, kind = "ERR-PYOCO-0018", "MSG-PYOCO-0018", Kind.INVALID
    code = "INVALID_USAGE"
    message_ja = "コマンドライン引数または設定が不正です"
    hint = "See --help for the options and docs/reference/settings.md for the settings."
    hint_ja = "--help と docs/reference/settings.md を確認してください。"


class InvalidWorkersRequest(PyocoError):
    """invalid workers request"""

    err_id, msg_id, kind = "ERR-PYOCO-0019", "MSG-PYOCO-0019", Kind.INVALID
    code = "INVALID_WORKERS_REQUEST"
    message_ja = "workers へのリクエストが不正です"
    hint = "Correct the parameter that the detail names."
    hint_ja = "detail が示すパラメータを修正してください。"


class WorkerNotFound(PyocoError):
    """worker not found"""

    err_id, msg_id, kind = "ERR-PYOCO-0020", "MSG-PYOCO-0020", Kind.NOT_FOUND
    code = "WORKER_NOT_FOUND"
    message_ja = "worker が見つかりません"
    hint = "See GET /workers?scope=all&include_hidden=true for the workers there are."
    hint_ja = "登録済みの worker は GET /workers?scope=all&include_hidden=true で確認できます。"


class CancelTimedOut(PyocoError):
    """the run did not stop within the cancel grace period"""

    err_id, msg_id, kind = "ERR-PYOCO-0021", "MSG-PYOCO-0021", Kind.INTERNAL
    code = "CANCEL_TIMED_OUT"
    message_ja = "cancel が猶予時間内に収束しませんでした"
    hint = "The runner was killed; check ctx.is_cancelled in long tasks to stop sooner."
    hint_ja = "runner は強制終了されました。長いタスクでは ctx.is_cancelled を確認してください。"


class WheelVersionConflict(PyocoError):
    """the same or a newer version of this package is registered"""

    err_id, msg_id, kind = "ERR-PYOCO-0022", "MSG-PYOCO-0022", Kind.CONFLICT
    code = "WHEEL_VERSION_CONFLICT"
    message_ja = "同一または新しいバージョンの wheel が登録済みです"
    hint = "Raise the version in the wheel and upload it again; the detail names the registered one."
    hint_ja = "wheel のバージョンを上げて再登録してください。登録済みのバージョンは detail にあります。"


class WheelNotFound(PyocoError):
    """wheel not found"""

    err_id, msg_id, kind = "ERR-PYOCO-0023", "MSG-PYOCO-0023", Kind.NOT_FOUND
    code = "WHEEL_NOT_FOUND"
    message_ja = "wheelが見つかりません"
    hint = "Look at the registered wheels: pyoco-client wheels."
    hint_ja = "登録済みの wheel を確認してください（pyoco-client wheels）。"


class WheelSyncFailed(PyocoError):
    """wheels could not be synchronised"""

    err_id, msg_id, kind = "ERR-PYOCO-0024", "MSG-PYOCO-0024", Kind.UNAVAILABLE
    code = "WHEEL_SYNC_FAILED"
    message_ja = "wheelの同期に失敗しました"
    hint = "It is tried again at the next interval; wheel_sync of the worker (pyoco-client workers) says what failed."
    hint_ja = "次の間隔で再試行されます。原因は worker の wheel_sync（pyoco-client workers）を確認してください。"


class CommandRejected(PyocoError):
    """the command does not fit the present state"""

    err_id, msg_id, kind = "ERR-PYOCO-0030", "MSG-PYOCO-0030", Kind.CONFLICT
    code = "COMMAND_REJECTED"
    message_ja = "現在の状態ではこの操作を受け付けられません"
    hint = "Read the present state and decide again."
    hint_ja = "現在の状態を確認してから操作してください。"


class AppendConflict(PyocoError):
    """too many writers at once"""

    err_id, msg_id, kind = "ERR-PYOCO-0031", "MSG-PYOCO-0031", Kind.UNAVAILABLE
    code = "TOO_MANY_WRITERS"
    message_ja = "同時書き込みが多すぎます"
    hint = "Try again in a moment."
    hint_ja = "少し待って再試行してください。"


class DataFolderInUse(PyocoError):
    """the data folder is in use"""

    err_id, msg_id, kind = "ERR-PYOCO-0032", "MSG-PYOCO-0032", Kind.CONFLICT
    code = "DATA_FOLDER_IN_USE"
    message_ja = "データフォルダは使用中です"
    hint = "Stop the other process, or choose another --data-dir."
    hint_ja = "もう一方のプロセスを停止するか、別の --data-dir を指定してください。"


class RouteNotFound(PyocoError):
    """no such path"""

    err_id, msg_id, kind = "ERR-PYOCO-0033", "MSG-PYOCO-0033", Kind.NOT_FOUND
    code = "ROUTE_NOT_FOUND"
    message_ja = "パスが存在しません"
    hint = "See /docs for the paths there are."
    hint_ja = "利用できるパスは /docs を参照してください。"


class CrossSiteRefused(PyocoError):
    """requests from pages of other sites are refused"""

    err_id, msg_id, kind = "ERR-PYOCO-0035", "MSG-PYOCO-0035", Kind.FORBIDDEN
    code = "CROSS_SITE_REFUSED"
    message_ja = "他サイトのページからのリクエストは受け付けません"
    hint = "Call the API from a program, or from a page that this gateway serves."
    hint_ja = "プログラムから、またはこの Gateway が配信するページから呼び出してください。"


class ScopeMissing(PyocoError):
    """not allowed with these credentials"""

    err_id, msg_id, kind = "ERR-PYOCO-0036", "MSG-PYOCO-0036", Kind.FORBIDDEN
    code = "FORBIDDEN"
    message_ja = "この資格情報では許可されていません"
    hint = "Ask an administrator for credentials with the scope that the detail names."
    hint_ja = "detail が示す scope を持つ資格情報を管理者に依頼してください。"


class InvalidToken(PyocoError):
    """invalid bearer token"""

    err_id, msg_id, kind = "ERR-PYOCO-0037", "MSG-PYOCO-0037", Kind.UNAUTHENTICATED
    code = "INVALID_TOKEN"
    message_ja = "bearer token が無効です"
    hint = "Get a new token from your identity provider; the detail says what is wrong with this one."
    hint_ja = "ID プロバイダーから新しい token を取得してください。理由は detail にあります。"


class TooManyWatchers(PyocoError):
    """too many streams are open on this gateway"""

    err_id, msg_id, kind = "ERR-PYOCO-0038", "MSG-PYOCO-0038", Kind.UNAVAILABLE
    code = "TOO_MANY_WATCHERS"
    message_ja = "このGatewayで開いているストリームが多すぎます"
    hint = "Close streams that nobody reads, raise PYOCO_HTTP_MAX_WATCHERS, or ask another gateway."
    hint_ja = "不要なストリームを閉じるか、PYOCO_HTTP_MAX_WATCHERS を上げるか、別の Gateway を使ってください。"


class WheelCorrupt(PyocoError):
    """the stored bytes of a wheel are not those that were uploaded"""

    err_id, msg_id, kind = "ERR-PYOCO-0039", "MSG-PYOCO-0039", Kind.INTERNAL
    code = "WHEEL_CORRUPT"
    message_ja = "保存された wheel の内容が登録時と一致しません"
    hint = "Delete the wheel and upload it again."
    hint_ja = "wheel を削除して再登録してください。"


class RunTimedOut(PyocoError):
    """the run took longer than it may"""

    err_id, msg_id, kind = "ERR-PYOCO-0042", "MSG-PYOCO-0042", Kind.INVALID
    code = "EXECUTION_TIMED_OUT"
    message_ja = "runが制限時間を超えました"
    hint = "Submit it with a longer timeout_sec, or make the task that was running faster; `timeout` has the receipt."
    hint_ja = "timeout_sec を延ばして再投入するか、実行中だった task を見直してください。詳細は timeout にあります。"


class DeadLetterNotFound(PyocoError):
    """dead letter not found"""

    err_id, msg_id, kind = "ERR-PYOCO-0040", "MSG-PYOCO-0040", Kind.NOT_FOUND
    code = "DEAD_LETTER_NOT_FOUND"
    message_ja = "dead letter が見つかりません"
    hint = "See GET /dlq (pyoco-client dlq) for the letters there are; each is kept for PYOCO_DLQ_MAX_AGE_SEC."
    hint_ja = (
        "現在の dead letter は GET /dlq（pyoco-client dlq）で確認できます。保持期間は PYOCO_DLQ_MAX_AGE_SEC です。"
    )


class DeadLetterNotReplayable(PyocoError):
    """the dead letter cannot be replayed"""

    err_id, msg_id, kind = "ERR-PYOCO-0041", "MSG-PYOCO-0041", Kind.CONFLICT
    code = "DEAD_LETTER_NOT_REPLAYABLE"
    message_ja = "この dead letter は再実行できません"
    hint = "Submit the run anew with its flow and params: pyoco-client submit."
    hint_ja = "flow と params を指定して新しく投入してください（pyoco-client submit）。"


class InvalidLogQuery(PyocoError):
    """invalid log query"""

    err_id, msg_id, kind = "ERR-PYOCO-0043", "MSG-PYOCO-0043", Kind.INVALID
    code = "INVALID_LOG_QUERY"
    message_ja = "ログの取得条件が不正です"
    hint = "Correct the query as the detail says; without a token a log is read from its start."
    hint_ja = "detail に従って条件を修正してください。トークンを省くとログの先頭から読みます。"


class LogNotRecorded(PyocoError):
    """what a run writes cannot be recorded for now"""

    err_id, msg_id, kind = "ERR-PYOCO-0044", "MSG-PYOCO-0044", Kind.UNAVAILABLE
    code = "LOG_NOT_RECORDED"
    message_ja = "runのログを記録できません"
    hint = "Nothing is to be done: the worker keeps up to 4 MiB of lines per run and stores them when NATS is back."
    hint_ja = "対応は不要です。worker は run ごとに 4 MiB まで行を保持し、NATS 復旧後に保存します。"


class UploadsBusy(PyocoError):
    """too many uploads at a time"""

    err_id, msg_id, kind = "ERR-PYOCO-0045", "MSG-PYOCO-0045", Kind.UNAVAILABLE
    code = "UPLOADS_BUSY"
    message_ja = "アップロードが混み合っています"
    hint = "Upload it again in a moment: this gateway takes so many wheels at a time."
    hint_ja = "少し待って再度アップロードしてください。gateway が同時に受け取る wheel の数には上限があります。"


class UploadNotKept(PyocoError):
    """the upload cannot be kept on the gateway's disk"""

    err_id, msg_id, kind = "ERR-PYOCO-0046", "MSG-PYOCO-0046", Kind.UNAVAILABLE
    code = "UPLOAD_NOT_KEPT"
    message_ja = "アップロードをgatewayのディスクに保存できません"
    hint = "Make room in the gateway's folder for temporary files, or set TMPDIR to a larger one; then upload it again."
    hint_ja = "gateway の一時フォルダに空きを作るか、TMPDIR で広い場所を指定してから、再度アップロードしてください。"


class InvalidGraph(PyocoError):
    """invalid graph"""

    err_id, msg_id, kind = "ERR-PYOCO-0055", "MSG-PYOCO-0055", Kind.INVALID
    code = "INVALID_GRAPH"
    message_ja = "graphが不正です"
    hint = "Correct the graph as the message says and put it again; docs/reference/graphs.md has the form."
    hint_ja = "message に従って graph を修正し、再登録してください。書式は docs/reference/graphs.md にあります。"


class GraphNotFound(PyocoError):
    """graph not found"""

    err_id, msg_id, kind = "ERR-PYOCO-0056", "MSG-PYOCO-0056", Kind.NOT_FOUND
    code = "GRAPH_NOT_FOUND"
    message_ja = "graphが見つかりません"
    hint = "See GET /graphs for the graphs there are; a new one is made by PUT /graphs/{graphId}."
    hint_ja = "登録済みの graph は GET /graphs で確認できます。新規登録は PUT /graphs/{graphId} です。"


class GraphVersionConflict(PyocoError):
    """the graph has another version by now"""

    err_id, msg_id, kind = "ERR-PYOCO-0057", "MSG-PYOCO-0057", Kind.CONFLICT
    code = "GRAPH_VERSION_CONFLICT"
    message_ja = "graphは既に別のバージョンです"
    hint = "Read the graph again, put your change into what it is now, and name that version."
    hint_ja = "graph を読み直し、現在の内容に変更を加えてから、そのバージョンを指定して再登録してください。"


class IdempotencyConflict(PyocoError):
    """the idempotency key was used for another request"""

    err_id, msg_id, kind = "ERR-PYOCO-0047", "MSG-PYOCO-0047", Kind.CONFLICT
    code = "IDEMPOTENCY_CONFLICT"
    message_ja = "この Idempotency-Key は別のリクエストで使用済みです"
    hint = "Choose a new key for a new request; send the same key only with the same body."
    hint_ja = "新しいリクエストには新しいキーを使ってください。同じキーは同じ内容の再送にだけ使えます。"


class IdempotencyKeyRequired(PyocoError):
    """an idempotency key is required"""

    err_id, msg_id, kind = "ERR-PYOCO-0048", "MSG-PYOCO-0048", Kind.INVALID
    code = "IDEMPOTENCY_KEY_REQUIRED"
    message_ja = "Idempotency-Key が必要です"
    hint = "Send a header Idempotency-Key with a value of your own (a UUID), and the same one when you repeat it."
    hint_ja = "Idempotency-Key ヘッダーに任意の値（UUID など）を付け、再送時は同じ値を使ってください。"


class NodeNotFound(PyocoError):
    """node not found"""

    err_id, msg_id, kind = "ERR-PYOCO-0058", "MSG-PYOCO-0058", Kind.NOT_FOUND
    code = "NODE_NOT_FOUND"
    message_ja = "nodeが見つかりません"
    hint = "See GET /executions/{executionId} for its nodes; in an open graph a node is there once it was started."
    hint_ja = "node は GET /executions/{executionId} で確認できます。open graph の node は start 後に存在します。"


class RangeNotSatisfiable(PyocoError):
    """the range is not satisfiable"""

    err_id, msg_id, kind = "ERR-PYOCO-0060", "MSG-PYOCO-0060", Kind.RANGE
    code = "RANGE_NOT_SATISFIABLE"
    message_ja = "指定された範囲のデータがありません"
    hint = "Content-Range says how many bytes there are; a log that is still written has more later."
    hint_ja = "現在のバイト数は Content-Range にあります。書き込み中のログは後で増えます。"


class PreconditionFailed(PyocoError):
    """what there is now is not what the request depends on"""

    err_id, msg_id, kind = "ERR-PYOCO-0061", "MSG-PYOCO-0061", Kind.PRECONDITION
    code = "PRECONDITION_FAILED"
    message_ja = "リクエストの前提条件が現在の内容と一致しません"
    hint = "Ask again without If-Match; the answer's ETag names what there is now."
    hint_ja = "If-Match を付けずに再度取得してください。現在の内容は応答の ETag で分かります。"


class InvalidTicket(PyocoError):
    """invalid ticket"""

    err_id, msg_id, kind = "ERR-PYOCO-0062", "MSG-PYOCO-0062", Kind.UNAUTHENTICATED
    code = "INVALID_TICKET"
    message_ja = "チケットが無効です"
    hint = "Ask for a new one with POST /jobs/{id}/ws-ticket and use it at once: it works once, for 30 seconds."
    hint_ja = "POST /jobs/{id}/ws-ticket で新しく取得し、すぐに使ってください。有効なのは 1 回、30 秒間です。"


class InternalError(PyocoError):
    """internal error"""

    err_id, msg_id, kind = "ERR-PYOCO-0034", "MSG-PYOCO-0034", Kind.INTERNAL
    code = "INTERNAL_ERROR"
    message_ja = "内部エラーが発生しました"
    hint = "Report it with the request id; the server's log has the traceback."
    hint_ja = "request id を添えて報告してください。トレースバックはサーバーのログにあります。"


def catalogue() -> list[type[PyocoError]]:
    """Every error there is, by id."""
    return sorted(PyocoError.__subclasses__(), key=lambda error: (error.err_id, error.__name__))
