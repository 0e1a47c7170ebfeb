"""The error catalogue: the id, the kind and the texts (English and Japanese) of every error a user can meet.

Nothing here knows HTTP, queues or exit codes: the edges map `Kind` to their own codes. `docs/reference/errors.md` is
generated from this module.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, ClassVar

from pyoco_server.japanese import japanese


class Kind(Enum):
    """The category of an error; edges map kinds, never classes."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    MISDIRECTED = "misdirected"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    PRECONDITION = "precondition"
    RANGE = "range"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    BAD_GATEWAY = "bad_gateway"
    INTERNAL = "internal"


class PyocoError(Exception):
    """something went wrong"""

    err_id: ClassVar[str] = "ERR-PYOCO-0000"
    msg_id: ClassVar[str] = "MSG-PYOCO-0000"
    kind: ClassVar[Kind] = Kind.INTERNAL
    # For programs: the same in all APIs, and as stable as the ids.
    code: ClassVar[str] = "ERROR"
    message_ja: ClassVar[str] = "問題が発生しました"
    hint: ClassVar[str] = "See the server's log for the request id."
    hint_ja: ClassVar[str] = "サーバーのログで request id を確認してください。"

    def __init_subclass__(
        cls, *, number: int | None = None, kind: Kind = Kind.INTERNAL, code: str | None = None, **options: Any
    ) -> None:
        """Set the ids of a catalogue entry; `code` is the class name in upper case unless given."""
        super().__init_subclass__(**options)
        if number is None:  # a variant of its base class
            return
        cls.err_id, cls.msg_id, cls.kind = f"ERR-PYOCO-{number:04}", f"MSG-PYOCO-{number:04}", kind
        cls.code = code or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).upper()

    def __init__(self, detail: str | None = None, **facts: object) -> None:
        self.detail = detail or self.message()
        self.facts = facts
        super().__init__(self.detail)

    @classmethod
    def message(cls) -> str:
        return (cls.__doc__ or "").strip().splitlines()[0]

    def texts(self, language: str) -> tuple[str, str]:
        """Message and hint in Japanese (`ja`) or English."""
        return (self.message_ja, self.hint_ja) if language == "ja" else (self.message(), self.hint)

    def detail_in(self, language: str) -> str:
        """The detail in Japanese (`ja`) or English; the catalogues of `japanese` have its text."""
        if language != "ja":
            return self.detail
        return self.message_ja if self.detail == self.message() else japanese(self.detail)

    @classmethod
    def ids(cls) -> dict[str, str]:
        """The fields by which a log line names this error."""
        return {"err_id": cls.err_id, "msg_id": cls.msg_id}


class GatewayUnreachable(PyocoError, number=1, kind=Kind.UNAVAILABLE):
    """the gateway cannot be reached"""

    message_ja = "稼働確認に失敗しました"
    hint = "Start the gateway (pyoco-server up) and check the address."
    hint_ja = "Gateway を起動し（pyoco-server up）、アドレスを確認してください。"


class GatewayStopping(PyocoError, number=64, kind=Kind.UNAVAILABLE):
    """the gateway is stopping"""

    message_ja = "Gatewayが停止中です"
    hint = "Send the request again in a moment, or to another gateway; with its idempotency key it is carried out once."
    hint_ja = "少し待つか、別の Gateway へ再送してください。idempotency key があれば一度だけ実行されます。"


class InvalidRequest(PyocoError, number=2, kind=Kind.INVALID):
    """invalid request"""

    message_ja = "リクエストが不正です"
    hint = "Correct the input as the detail says and send it again."
    hint_ja = "detail に従って入力を修正し、再送してください。"


class RequestTooLarge(PyocoError, number=2, kind=Kind.TOO_LARGE):
    """request too large"""

    message_ja = "リクエストが大きすぎます"
    hint = "Send less: put large data into a file or an object store and pass its address."
    hint_ja = "データを減らすか、大きなデータは別の場所に置いて参照を渡してください。"


class MethodNotAllowed(InvalidRequest):
    """the method is not allowed on this path"""

    message_ja = "このパスではこのメソッドを使えません"
    hint = "Use one of the methods that the detail and the Allow header name; /docs has what each does."
    hint_ja = "detail と Allow ヘッダーにあるメソッドを使ってください。各メソッドの説明は /docs にあります。"


class BrokerUnavailable(PyocoError, number=3, kind=Kind.UNAVAILABLE, code="UNAVAILABLE"):
    """nats unavailable"""

    message_ja = "NATSが利用できません"
    hint = "Try again in a moment; if it lasts, check that NATS is running and reachable."
    hint_ja = "少し待って再試行してください。続く場合は NATS の稼働と疎通を確認してください。"


class BrokerRefused(PyocoError, number=90, kind=Kind.INVALID):
    """nats refuses what this program needs"""

    message_ja = "NATSが必要な操作を拒否しました"
    hint = "Change the setting, or the configuration of nats-server; to try again does not help."
    hint_ja = "設定か nats-server の構成を変更してください。再試行では解決しません。"


class IndexUnavailable(PyocoError, number=63, kind=Kind.UNAVAILABLE):
    """the run index is being rebuilt"""

    message_ja = "runの索引を再構築しています"
    hint = "Try again in a moment; if it lasts, check the gateway's log and the disk that holds the run index."
    hint_ja = "少し待って再試行してください。続く場合は Gateway のログと索引のディスクを確認してください。"


class Unanswered(BrokerUnavailable):
    """nats unavailable; the request may have been carried out"""


class OrphanRunPossible(PyocoError, number=4, kind=Kind.UNAVAILABLE, code="ORPHAN_POSSIBLE"):
    """a run that was not accepted may have been left behind (best-effort cleanup failed)"""

    message_ja = "孤児runが残っている可能性があります（best-effort cleanup失敗）"
    hint = "Look the run up by its id once NATS is back; cancel it if it is there."
    hint_ja = "NATS 復旧後に run_id を確認し、残っていれば取り消してください。"


class RunNotFound(PyocoError, number=5, kind=Kind.NOT_FOUND, code="EXECUTION_NOT_FOUND"):
    """run not found"""

    message_ja = "runが見つかりません"
    hint = "Check the id; finished runs are removed after PYOCO_RUN_RETENTION_SEC."
    hint_ja = "id を確認してください。終了した run は PYOCO_RUN_RETENTION_SEC 経過後に削除されます。"


class FlowNotFound(PyocoError, number=6, kind=Kind.NOT_FOUND):
    """flow not found"""

    message_ja = "flowが見つかりません"
    hint = "Check flow_name, and that the workers of this tag serve it."
    hint_ja = "flow_name と、その tag の worker が該当 flow を持つことを確認してください。"


class ExecutionFailedError(PyocoError, number=7, kind=Kind.INTERNAL, code="EXECUTION_FAILED"):
    """execution failed"""

    message_ja = "実行に失敗しました"
    hint = "Check input, code and dependencies of the flow, then submit it again."
    hint_ja = "入力・コード・依存を確認し、再投入してください。"


class TerminalNotRecorded(PyocoError, number=8, kind=Kind.UNAVAILABLE):
    """the final state could not be recorded"""

    message_ja = "terminal状態の記録に失敗しました"
    hint = "Nothing to do: the job is delivered again once NATS is back."
    hint_ja = "対応は不要です。NATS 復旧後に再配送されます。"


class InProgressFailed(PyocoError, number=9, kind=Kind.UNAVAILABLE):
    """in_progress could not be sent"""

    message_ja = "in_progress ACK の送信に失敗しました"
    hint = "Check the worker's connection to NATS; the job may be delivered again."
    hint_ja = "worker と NATS の接続を確認してください。再配送される可能性があります。"


class SnapshotTooLarge(PyocoError, number=10, kind=Kind.TOO_LARGE):
    """snapshot too large"""

    message_ja = "スナップショットが大きすぎます"
    hint = "Raise PYOCO_MAX_RUN_SNAPSHOT_BYTES, or use fewer tasks or smaller params."
    hint_ja = "PYOCO_MAX_RUN_SNAPSHOT_BYTES を上げるか、task 数や params を減らしてください。"


class DeadLetterFailed(PyocoError, number=11, kind=Kind.UNAVAILABLE):
    """the dead letter could not be published (best-effort)"""

    message_ja = "DLQへのpublishに失敗しました（best-effort）"
    hint = "The run's snapshot names the cause."
    hint_ja = "run スナップショットで原因を確認してください。"


class InvalidJob(PyocoError, number=12, kind=Kind.INVALID):
    """invalid job received"""

    message_ja = "不正なジョブを受信しました"
    hint = "Check the program that published the job."
    hint_ja = "ジョブの producer と subject を確認してください。"


class LoggingFailed(PyocoError, number=13, kind=Kind.INVALID):
    """logging failed (best-effort)"""

    message_ja = "ログ出力に失敗しました（best-effort）"
    hint = "Check PYOCO_LOG_LEVEL and PYOCO_LOG_FORMAT."
    hint_ja = "PYOCO_LOG_LEVEL と PYOCO_LOG_FORMAT を確認してください。"


class CredentialsMissing(PyocoError, number=14, kind=Kind.UNAUTHENTICATED, code="UNAUTHENTICATED"):
    """credentials required"""

    message_ja = "API key が必要です"
    hint = "Send an API key (header X-API-Key, pyoco-client --api-key) or a bearer token."
    hint_ja = "API key（X-API-Key ヘッダー、pyoco-client --api-key）または bearer token を付けてください。"


class InvalidApiKey(PyocoError, number=15, kind=Kind.FORBIDDEN):
    """invalid API key"""

    message_ja = "API key が無効です"
    hint = "The key is unknown, revoked or expired: ask for a new one (pyoco-server-admin api-key create)."
    hint_ja = "API key が未登録・失効・期限切れです。再発行してください（pyoco-server-admin api-key create）。"


class WorkflowTooLarge(PyocoError, number=16, kind=Kind.TOO_LARGE):
    """workflow file too large"""

    message_ja = "ワークフローファイルが大きすぎます"
    hint = "Make flow.yaml smaller, or raise PYOCO_WORKFLOW_YAML_MAX_BYTES on the server."
    hint_ja = "flow.yaml を小さくするか、サーバーの PYOCO_WORKFLOW_YAML_MAX_BYTES を上げてください。"


class InvalidListQuery(PyocoError, number=17, kind=Kind.INVALID):
    """invalid list query"""

    message_ja = "一覧クエリが不正です"
    hint = "Correct the query parameter that the detail names."
    hint_ja = "detail が示すクエリパラメータを修正してください。"


class InvalidUsage(PyocoError, number=18, kind=Kind.INVALID):
    """invalid command line or setting"""

    message_ja = "コマンドライン引数または設定が不正です"
    hint = "See --help for the options and docs/reference/settings.md for the settings."
    hint_ja = "--help と docs/reference/settings.md を確認してください。"


class InvalidWorkersRequest(PyocoError, number=19, kind=Kind.INVALID):
    """invalid workers request"""

    message_ja = "workers へのリクエストが不正です"
    hint = "Correct the parameter that the detail names."
    hint_ja = "detail が示すパラメータを修正してください。"


class WorkerNotFound(PyocoError, number=20, kind=Kind.NOT_FOUND):
    """worker not found"""

    message_ja = "worker が見つかりません"
    hint = "See GET /workers?scope=all&include_hidden=true for the registered workers."
    hint_ja = "登録済みの worker は GET /workers?scope=all&include_hidden=true で確認できます。"


class CancelTimedOut(PyocoError, number=21, kind=Kind.INTERNAL):
    """the run did not stop within the cancel grace period"""

    message_ja = "cancel が猶予時間内に収束しませんでした"
    hint = "The runner was killed; check ctx.is_cancelled in long tasks to stop sooner."
    hint_ja = "runner は強制終了されました。長い task では ctx.is_cancelled を確認してください。"


class WheelVersionConflict(PyocoError, number=22, kind=Kind.CONFLICT):
    """the same or a newer version of this package is registered"""

    message_ja = "同一または新しいバージョンの wheel が登録済みです"
    hint = "Raise the version in the wheel and upload it again; the detail names the registered one."
    hint_ja = "wheel のバージョンを上げて再登録してください。登録済みのバージョンは detail にあります。"


class WheelNotFound(PyocoError, number=23, kind=Kind.NOT_FOUND):
    """wheel not found"""

    message_ja = "wheelが見つかりません"
    hint = "Look at the registered wheels: pyoco-client wheels."
    hint_ja = "登録済みの wheel を確認してください（pyoco-client wheels）。"


class WheelSyncFailed(PyocoError, number=24, kind=Kind.UNAVAILABLE):
    """wheels could not be synchronised"""

    message_ja = "wheelの同期に失敗しました"
    hint = "Retried at the next interval; wheel_sync of the worker (pyoco-client workers) says what failed."
    hint_ja = "次の間隔で再試行されます。原因は worker の wheel_sync（pyoco-client workers）を確認してください。"


class CommandRejected(PyocoError, number=30, kind=Kind.CONFLICT):
    """the command is not allowed in the current state"""

    message_ja = "現在の状態ではこの操作を受け付けられません"
    hint = "Read the current state and decide again."
    hint_ja = "現在の状態を確認してから操作してください。"


class AppendConflict(PyocoError, number=31, kind=Kind.UNAVAILABLE, code="TOO_MANY_WRITERS"):
    """too many writers at once"""

    message_ja = "同時書き込みが多すぎます"
    hint = "Try again in a moment."
    hint_ja = "少し待って再試行してください。"


class DataFolderInUse(PyocoError, number=32, kind=Kind.CONFLICT):
    """the data folder is in use"""

    message_ja = "データフォルダは使用中です"
    hint = "Stop the other process, or choose another --data-dir."
    hint_ja = "もう一方のプロセスを停止するか、別の --data-dir を指定してください。"


class RouteNotFound(PyocoError, number=33, kind=Kind.NOT_FOUND):
    """no such path"""

    message_ja = "パスが存在しません"
    hint = "See /docs for the available paths."
    hint_ja = "利用できるパスは /docs を参照してください。"


class DashboardMissing(PyocoError, number=126, kind=Kind.NOT_FOUND):
    """this gateway is installed without the dashboard"""

    message_ja = "この Gateway には dashboard が含まれていません"
    hint = "Install it without PYOCO_SKIP_DASHBOARD; in a clone run scripts/dashboard build and restart it."
    hint_ja = (
        "PYOCO_SKIP_DASHBOARD を設定せずにインストールしてください。"
        "clone では scripts/dashboard build を実行し、再起動してください。"
    )


class CrossSiteRefused(PyocoError, number=35, kind=Kind.FORBIDDEN):
    """requests from pages of other sites are refused"""

    message_ja = "他サイトのページからのリクエストは受け付けません"
    hint = "Call the API from a program, or from a page that this gateway serves."
    hint_ja = "プログラムから、またはこの Gateway が配信するページから呼び出してください。"


class ScopeMissing(PyocoError, number=36, kind=Kind.FORBIDDEN, code="FORBIDDEN"):
    """not allowed with these credentials"""

    message_ja = "この資格情報では許可されていません"
    hint = "Ask an administrator for credentials with the scope that the detail names."
    hint_ja = "detail が示す scope を持つ資格情報を管理者に依頼してください。"


class InvalidToken(PyocoError, number=37, kind=Kind.UNAUTHENTICATED):
    """invalid bearer token"""

    message_ja = "bearer token が無効です"
    hint = "Get a new token from your identity provider; the detail says what is wrong with this one."
    hint_ja = "ID プロバイダーから新しい token を取得してください。理由は detail にあります。"


class TooManyWatchers(PyocoError, number=38, kind=Kind.UNAVAILABLE):
    """too many streams are open on this gateway"""

    message_ja = "このGatewayで開いているストリームが多すぎます"
    hint = "Close unused streams, raise PYOCO_HTTP_MAX_WATCHERS, or ask another gateway."
    hint_ja = "不要なストリームを閉じるか、PYOCO_HTTP_MAX_WATCHERS を上げるか、別の Gateway を使ってください。"


class TooManyStreams(PyocoError, number=125, kind=Kind.RATE_LIMITED):
    """this caller has too many open streams"""

    message_ja = "この呼び出し元が開いているストリームが多すぎます"
    hint = "Close streams that are no longer needed, or raise PYOCO_HTTP_MAX_STREAMS_PER_CALLER."
    hint_ja = "不要なストリームを閉じるか、PYOCO_HTTP_MAX_STREAMS_PER_CALLER を上げてください。"


class WheelCorrupt(PyocoError, number=39, kind=Kind.INTERNAL):
    """the stored bytes of a wheel are not those that were uploaded"""

    message_ja = "保存された wheel の内容が登録時と一致しません"
    hint = "Delete the wheel and upload it again."
    hint_ja = "wheel を削除して再登録してください。"


class RunTimedOut(PyocoError, number=42, kind=Kind.INVALID, code="EXECUTION_TIMED_OUT"):
    """the run exceeded its time limit"""

    message_ja = "runが制限時間を超えました"
    hint = "Submit it with a longer timeout_sec, or make the task that was running faster; `timeout` has the receipt."
    hint_ja = "timeout_sec を延ばして再投入するか、実行中だった task を見直してください。詳細は timeout にあります。"


class DeadLetterNotFound(PyocoError, number=40, kind=Kind.NOT_FOUND):
    """dead letter not found"""

    message_ja = "dead letter が見つかりません"
    hint = "See GET /dlq (pyoco-client dlq) for the stored dead letters; each is kept for PYOCO_DLQ_MAX_AGE_SEC."
    hint_ja = (
        "現在の dead letter は GET /dlq（pyoco-client dlq）で確認できます。保持期間は PYOCO_DLQ_MAX_AGE_SEC です。"
    )


class DeadLetterNotReplayable(PyocoError, number=41, kind=Kind.CONFLICT):
    """the dead letter cannot be replayed"""

    message_ja = "この dead letter は再実行できません"
    hint = "Submit the run anew with its flow and params: pyoco-client submit."
    hint_ja = "flow と params を指定して新しく投入してください（pyoco-client submit）。"


class InvalidLogQuery(PyocoError, number=43, kind=Kind.INVALID):
    """invalid log query"""

    message_ja = "ログの取得条件が不正です"
    hint = "Correct the query as the detail says; without a token a log is read from its start."
    hint_ja = "detail に従って条件を修正してください。トークンを省くとログの先頭から読みます。"


class LogNotRecorded(PyocoError, number=44, kind=Kind.UNAVAILABLE):
    """the output of a run cannot be recorded at present"""

    message_ja = "runのログを記録できません"
    hint = "No action needed: the worker keeps up to 4 MiB of lines per run and stores them when NATS is back."
    hint_ja = "対応は不要です。worker は run ごとに 4 MiB まで行を保持し、NATS 復旧後に保存します。"


class UploadsBusy(PyocoError, number=45, kind=Kind.UNAVAILABLE):
    """too many uploads at a time"""

    message_ja = "アップロードが混み合っています"
    hint = "Upload it again in a moment: a gateway accepts a limited number of wheels at a time."
    hint_ja = "少し待って再度アップロードしてください。gateway が同時に受け取る wheel の数には上限があります。"


class UploadNotKept(PyocoError, number=46, kind=Kind.UNAVAILABLE):
    """the upload cannot be kept on the gateway's disk"""

    message_ja = "アップロードをgatewayのディスクに保存できません"
    hint = "Make room in the gateway's folder for temporary files, or set TMPDIR to a larger one; then upload it again."
    hint_ja = "gateway の一時フォルダに空きを作るか、TMPDIR で広い場所を指定してから、再度アップロードしてください。"


class InvalidGraph(PyocoError, number=55, kind=Kind.INVALID):
    """invalid graph"""

    message_ja = "graphが不正です"
    hint = "Correct the graph as the message says and put it again; docs/reference/graphs.md has the form."
    hint_ja = "message に従って graph を修正し、再登録してください。書式は docs/reference/graphs.md にあります。"


class GraphNotFound(PyocoError, number=56, kind=Kind.NOT_FOUND):
    """graph not found"""

    message_ja = "graphが見つかりません"
    hint = "See GET /graphs for the stored graphs; create a new one with PUT /graphs/{graphId}."
    hint_ja = "登録済みの graph は GET /graphs で確認できます。新規登録は PUT /graphs/{graphId} です。"


class GraphVersionConflict(PyocoError, number=57, kind=Kind.CONFLICT):
    """the graph has another version now"""

    message_ja = "graphは既に別のバージョンです"
    hint = "Read the graph again, apply your change to the current version, and name that version."
    hint_ja = "graph を読み直し、現在の内容に変更を加えてから、そのバージョンを指定して再登録してください。"


class IdempotencyConflict(PyocoError, number=47, kind=Kind.CONFLICT):
    """the idempotency key was used for another request"""

    message_ja = "この Idempotency-Key は別のリクエストで使用済みです"
    hint = "Choose a new key for a new request; send the same key only with the same body."
    hint_ja = "新しいリクエストには新しいキーを使ってください。同じキーは同じ内容の再送にだけ使えます。"


class IdempotencyKeyRequired(PyocoError, number=48, kind=Kind.INVALID):
    """an idempotency key is required"""

    message_ja = "Idempotency-Key が必要です"
    hint = "Send a header Idempotency-Key with a value of your own (a UUID), and the same one when you repeat it."
    hint_ja = "Idempotency-Key ヘッダーに任意の値（UUID など）を付け、再送時は同じ値を使ってください。"


class NodeNotFound(PyocoError, number=58, kind=Kind.NOT_FOUND):
    """node not found"""

    message_ja = "nodeが見つかりません"
    hint = "See GET /executions/{executionId} for its nodes; in an open graph a node is there once it was started."
    hint_ja = "node は GET /executions/{executionId} で確認できます。open graph の node は start 後に存在します。"


class NotAChoice(PyocoError, number=65, kind=Kind.INVALID):
    """the answer is not one of the choices"""

    message_ja = "回答が選択肢にありません"
    hint = 'Answer with one of the choices: as it is ("ship"), or as {"choice": "ship"} with further fields.'
    hint_ja = '選択肢の一つを、そのまま（"ship"）か {"choice": "ship"} の形で送ってください（他の項目も追加できます）。'


class RangeNotSatisfiable(PyocoError, number=60, kind=Kind.RANGE):
    """the range is not satisfiable"""

    message_ja = "指定された範囲のデータがありません"
    hint = "Content-Range says how many bytes there are; a log that is still written has more later."
    hint_ja = "現在のバイト数は Content-Range にあります。書き込み中のログは後で増えます。"


class PreconditionFailed(PyocoError, number=61, kind=Kind.PRECONDITION):
    """the precondition of the request does not hold"""

    message_ja = "リクエストの前提条件が現在の内容と一致しません"
    hint = "Repeat the request without If-Match; the response's ETag names the current content."
    hint_ja = "If-Match を付けずに再度取得してください。現在の内容は応答の ETag で分かります。"


class InvalidTicket(PyocoError, number=62, kind=Kind.UNAUTHENTICATED):
    """invalid ticket"""

    message_ja = "チケットが無効です"
    hint = "Ask for a new one with POST /jobs/{id}/ws-ticket and use it at once: it works once, for 30 seconds."
    hint_ja = "POST /jobs/{id}/ws-ticket で新しく取得し、すぐに使ってください。有効なのは 1 回、30 秒間です。"


class RunnerUserUnusable(PyocoError, number=71, kind=Kind.INVALID):
    """tasks cannot run as the user in PYOCO_RUNNER_USER"""

    message_ja = "PYOCO_RUNNER_USER のユーザーでは task を実行できません"
    hint = (
        "Start the worker as root or with CAP_SETUID, CAP_SETGID and CAP_KILL (deploy/systemd/pyoco-worker@.service). "
        "Let that user read Python and the flows and write to the working folder: docs/how-to/deploy.md."
    )
    hint_ja = (
        "worker を root か、CAP_SETUID・CAP_SETGID・CAP_KILL 付きで起動してください"
        "（deploy/systemd/pyoco-worker@.service）。そのユーザーには Python と flow の読み取りと、作業フォルダへの"
        "書き込みが必要です（docs/how-to/deploy.md）。"
    )


class HostRefused(PyocoError, number=74, kind=Kind.MISDIRECTED):
    """the gateway does not answer to this host name"""

    message_ja = "このホスト名へのリクエストは受け付けません"
    hint = "Call it by localhost or its IP address, or add the name to PYOCO_HTTP_ALLOWED_HOSTS of the gateway."
    hint_ja = "localhost か IP アドレスで呼び出すか、Gateway の PYOCO_HTTP_ALLOWED_HOSTS に名前を追加してください。"


class WritesRejected(PyocoError, number=75, kind=Kind.UNAVAILABLE):
    """the broker stores nothing at present"""

    message_ja = "NATSへの書き込みができません"
    hint = "Make room on the broker's disk, or raise max_file_store of nats-server; its log names the cause."
    hint_ja = (
        "NATS のディスクに空きを作るか、nats-server の max_file_store を上げてください。原因は NATS のログにあります。"
    )


class EventsLost(PyocoError, number=80, kind=Kind.INTERNAL):
    """the broker has lost events of the run"""

    message_ja = "run のイベントが NATS から失われています"
    hint = (
        "Check the disk of nats-server and restore its data from a backup if you have one; "
        "submit the run again if it is still wanted."
    )
    hint_ja = (
        "nats-server のディスクを確認し、バックアップがあればデータを復元してください。"
        "必要であれば run を再投入してください。"
    )


class SubmissionRefused(PyocoError, number=83, kind=Kind.INVALID):
    """no running worker can run this"""

    message_ja = "実行できる稼働中の worker がありません"
    hint = (
        "Correct it as the detail says. Without `strict` (--no-strict) it is queued for the workers of its tag; "
        "one that does not know the flow fails it."
    )
    hint_ja = (
        "detail に従って修正してください。`strict` なし（--no-strict）なら tag の worker を待つキューに入ります。"
        "その flow を知らない worker が受け取ると失敗します。"
    )


class FlowNotAnnounced(PyocoError, number=84, kind=Kind.NOT_FOUND):
    """no running worker announces this flow"""

    message_ja = "このflowを公開している稼働中の worker がありません"
    hint = "See GET /flows (pyoco-client flows) for those that are. A worker may serve flows that it does not announce."
    hint_ja = (
        "公開中の flow は GET /flows（pyoco-client flows）で確認できます。"
        "worker は公開していない flow も実行できる場合があります。"
    )


class RateLimited(PyocoError, number=92, kind=Kind.RATE_LIMITED):
    """too many requests"""

    message_ja = "リクエストが多すぎます"
    hint = "Send the request again after the seconds in Retry-After; the X-RateLimit headers show what is left."
    hint_ja = "Retry-After の秒数を待って再送してください。残りは X-RateLimit ヘッダーで確認できます。"


class EngineDown(PyocoError, number=93, kind=Kind.BAD_GATEWAY, code="AIRFLOW_DOWN"):
    """the engine that runs batches does not answer"""

    message_ja = "batch を実行する engine が応答しません"
    hint = "Try again in a moment; an operator checks Airflow and the PYOCO_AIRFLOW settings with pyoco-client doctor."
    hint_ja = "少し待って再送してください。Airflow と PYOCO_AIRFLOW の設定は pyoco-client doctor で確認できます。"


class EngineMisconfigured(EngineDown):
    """the engine that runs batches is not set up"""

    message_ja = "batch を実行する engine が正しく設定されていません"
    hint = "An operator corrects Airflow or the PYOCO_AIRFLOW settings as the detail says; to try again does not help."
    hint_ja = "detail に従って Airflow か PYOCO_AIRFLOW の設定を修正してください。再試行では解決しません。"


class StrategyNotFound(PyocoError, number=94, kind=Kind.NOT_FOUND):
    """there is no such strategy"""

    message_ja = "strategy が見つかりません"
    hint = "GET /gui/strategies lists the registered ones; PUT /pdca/strategies/{id} registers one."
    hint_ja = "登録済みの strategy は GET /gui/strategies で確認し、PUT /pdca/strategies/{id} で登録してください。"


class ArtifactNotFound(PyocoError, number=95, kind=Kind.NOT_FOUND):
    """there is no such artifact"""

    message_ja = "artifact が見つかりません"
    hint = "GET /pdca/recheck/{request_id} lists those of a request; they are kept as long as its run."
    hint_ja = "request の artifact は GET /pdca/recheck/{request_id} で確認できます。run と同じ期間保管されます。"


class InvalidLink(PyocoError, number=105, kind=Kind.FORBIDDEN):
    """the link to the artifact has expired or was changed"""

    message_ja = "artifact へのリンクは期限切れか、変更されています"
    hint = "Get a new link with GET /gui/artifacts/{id}/url; it is valid for 5 minutes."
    hint_ja = "GET /gui/artifacts/{id}/url で新しいリンクを取得してください。有効期間は 5 分です。"


class InternalError(PyocoError, number=34, kind=Kind.INTERNAL):
    """internal error"""

    message_ja = "内部エラーが発生しました"
    hint = "Report it with the request id; the server's log has the traceback."
    hint_ja = "request id を添えて報告してください。トレースバックはサーバーのログにあります。"


def catalogue() -> list[type[PyocoError]]:
    """Every error of the catalogue, by id."""
    return sorted(PyocoError.__subclasses__(), key=lambda error: (error.err_id, error.__name__))
