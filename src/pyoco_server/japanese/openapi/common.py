"""What several APIs share: responses, idempotency, pages, logs, errors."""

from __future__ import annotations

TEXTS = {
    "Another name of `tag`.": "`tag` の別名。",
    "Reject (422, ERR-PYOCO-0083) an unknown flow or parameter, a missing parameter, and a tag that is not served, as "
    "far as the running workers announce all of their flows. Otherwise these are `warnings`.": (
        "未知の flow・パラメーター、不足しているパラメーター、担当する worker のない tag を拒否します（422、ERR-PYOCO-0083）。"
        "稼働中の worker がすべての flow を公開している範囲で判断します。指定しない場合は `warnings` になります。"
    ),
    "What the running workers cannot run as it is, as far as they announce it; absent: nothing.": (
        "稼働中の worker がそのままでは実行できない点です（公開されている範囲）。なければ省略されます。"
    ),
    "Runs Python workflows on a fleet of workers. Every run is a list of events in which cancel wins.": (
        "Python のワークフローを複数の worker で実行します。run は event の列であり、取消が最優先です。"
    ),
    "Successful Response": "成功",
    "Conflict": "競合",
    "Request Entity Too Large": "リクエストが大きすぎます",
    "Content Too Large": "リクエストが大きすぎます",
    "Unprocessable Entity": "入力が不正です",
    "Unprocessable Content": "入力が不正です",
    "Service Unavailable": "一時的に利用できません",
    "Not Found": "見つかりません",
    "Internal Server Error": "サーバー内部のエラー",
    "Requested Range Not Satisfiable": "範囲が不正です",
    "Range Not Satisfiable": "範囲が不正です",
    "No credentials, or a bearer token that is not accepted (with authentication on)": (
        "認証情報がないか、bearer token が無効です（認証が有効な場合）"
    ),
    "An API key that is not accepted, a scope that is missing, or a page of another site": (
        "API key が無効か、scope が不足しているか、他サイトのページからのリクエストです"
    ),
    "No Host header, several of them, or a malformed one": "Host ヘッダーがないか、複数あるか、形式が不正です",
    "A host name that is not among `PYOCO_HTTP_ALLOWED_HOSTS`": "`PYOCO_HTTP_ALLOWED_HOSTS` にないホスト名です",
    "An invalid request, for example a query parameter that the operation does not have": (
        "不正なリクエスト。例: その操作にないクエリパラメータ"
    ),
    "More requests, or more open streams, than this caller may have; `Retry-After` says when to send it again": (
        "この呼び出し元の上限を超えるリクエスト、または開いているストリーム。再送の時期は `Retry-After` にあります"
    ),
    # Idempotency
    "`true`: the stored answer of an earlier request with the same key.": (
        "`true`: 同じ key の以前のリクエストに対する、保存された応答です。"
    ),
    "Sent again with the same key, the request is answered as before and done once; with the same key and another body "
    "it is a 409. Kept for PYOCO_IDEMPOTENCY_TTL_SEC.": (
        "同じ key で再送すると、実行は一度だけで、前回と同じ応答を返します。同じ key で本文が異なると 409 です。"
        "PYOCO_IDEMPOTENCY_TTL_SEC の間保持されます。"
    ),
    "The same as Idempotency-Key; of both, if they are given, the value must be the same.": (
        "Idempotency-Key と同じです。両方を指定する場合は同じ値にしてください。"
    ),
    # Errors
    "An error, with a hint what to do about it.": "エラーと、その対処です。",
    "An error of `/executions`.": "`/executions` のエラーです。",
    "An error of `/jobs` (RFC 9457); `code` and `errId` are for programs.": (
        "`/jobs` のエラーです（RFC 9457）。`code` と `errId` はプログラム用です。"
    ),
    "`code` is for programs, `message` for people; `details` has the ids, a hint, and the violated guard.": (
        "`code` はプログラム用、`message` は人が読むためのものです。`details` には id、対処、違反した guard があります。"
    ),
    "The requested path.": "リクエストのパス。",
    "The guard that rejected a command.": "コマンドを拒否した guard。",
    # Pages and times
    "Unix seconds.": "Unix 秒。",
    "Unix seconds, by the clock of the worker.": "Unix 秒（worker の時計）。",
    "Unix seconds, by the worker's clock.": "Unix 秒（worker の時計）。",
    "RFC 3339, UTC, by the clock of the worker.": "RFC 3339、UTC（worker の時計）。",
    "null when unknown.": "不明な場合は null。",
    "The `nextCursor` of the page before.": "前のページの `nextCursor`。",
    "The `next_cursor` of the page before.": "前のページの `next_cursor`。",
    "The `nextCursor` of the page before, with the same filters.": "前のページの `nextCursor`。フィルターは同じにします。",
    "The `nextToken` of the page before, with the same filters.": "前のページの `nextToken`。フィルターは同じにします。",
    "The `nextToken` of the page before, with the same prefix.": "前のページの `nextToken`。prefix は同じにします。",
    "The `nextCursor` of the page before, with the same q.": "前のページの `nextCursor`。q は同じにします。",
    "Send it as `nextToken` with the same filters.": "同じフィルターで `nextToken` として送ります。",
    "Send it as `nextToken` with the same prefix.": "同じ prefix で `nextToken` として送ります。",
    "A page; continue with `nextCursor` and the same filters until it is null.": (
        "1 ページです。null になるまで、同じフィルターで `nextCursor` を使って続けます。"
    ),
    "A page of a list; continue with `next_cursor` and the same filters until it is null.": (
        "一覧の 1 ページです。null になるまで、同じフィルターで `next_cursor` を使って続けます。"
    ),
    "Submitted at this time or later: unix seconds, a date, or RFC 3339 (UTC without an offset).": (
        "この時刻以降に投入されたもの。Unix 秒、日付、または RFC 3339（オフセットがなければ UTC）。"
    ),
    "Submitted earlier than this time.": "この時刻より前に投入されたもの。",
    "The beginning of their ids.": "id の先頭の文字列。",
    "As it was with the event of this version, or at this time: a date, RFC 3339, or unix seconds with a decimal point. "
    "Absent: as it is now.": (
        "この version の event の時点、またはこの時刻（日付、RFC 3339、小数点付きの Unix 秒）の状態。"
        "省略時は現在の状態。"
    ),
    # Logs
    "Most lines of a page.": "1 ページの最大行数。",
    "Begin with this many last lines instead.": "末尾からこの行数で始めます。",
    "How long to wait for lines, or for the end of the run.": "行、または run の終了を待つ時間。",
    "How long to wait for lines, or for the end of the job.": "行、または job の終了を待つ時間。",
    "With text/plain only.": "text/plain の場合のみ。",
    "One line of a log.": "ログの 1 行です。",
    "`output` was written past Python, by C code or a program; `pyoco` by this server, about the job.": (
        "`output` は Python を経由しない出力（C のコードや外部プログラム）、`pyoco` はこのサーバーによる job の説明です。"
    ),
    "`output` was written past Python, by C code or a program; `pyoco` by this server, about the run.": (
        "`output` は Python を経由しない出力（C のコードや外部プログラム）、`pyoco` はこのサーバーによる run の説明です。"
    ),
    "`Last-Event-ID` resumes behind it.": "`Last-Event-ID` で続きから再開できます。",
    "Resume behind this event; browsers send it by themselves.": "この event の続きから再開します（ブラウザーは自動で送ります）。",
    "What this gateway found when it last looked at Airflow, at most a few seconds ago.": (
        "この Gateway が Airflow を最後に確認した結果（最大で数秒前）です。"
    ),
    "`misconfigured`: an operator has to correct Airflow or the PYOCO_AIRFLOW settings.": (
        "`misconfigured`: 管理者が Airflow か PYOCO_AIRFLOW の設定を修正する必要があります。"
    ),
    "Why it is not up.": "利用できない理由です。",
    "Only where Airflow runs the batches of rechecks. Other runs do not need it.": (
        "recheck の batch を Airflow で実行する場合だけあります。ほかの run には影響しません。"
    ),
}
