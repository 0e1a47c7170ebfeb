"""The Japanese of the overview and of time series in the OpenAPI document, by the English text."""

from __future__ import annotations

TEXTS = {
    "Get Overview": "概要を取得する",
    "Runs by status, queues by tag, workers by state, waiting nodes, dead letters and the health of this gateway.": (
        "状態ごとの run、tag ごとのキュー、状態ごとの worker、入力待ちの node、dead letter、この gateway の健全性です。"
    ),
    "503 while the broker is away or the index is being built: `GET /ready` says why.": (
        "broker に接続できない間や索引の構築中は 503 です。理由は `GET /ready` でわかります。"
    ),
    "The present. Parts that the caller's scopes do not cover are null.": (
        "現在の状況です。呼び出し元の scope が及ばない部分は null です。"
    ),
    "The stored runs by status.": "状態ごとの、保存されている run の数です。",
    "A tag: the runs that wait for a worker of it, and its workers. Those are null without `workers:read`.": (
        "tag ごとの、worker を待つ run の数と worker です。worker の値は `workers:read` がなければ null です。"
    ),
    "Unix seconds; since when the oldest one has not changed.": "最も古い run が変化していない期間の始まり（unix 秒）。",
    "Running workers that serve the tag.": "この tag を担当する稼働中の worker の数。",
    "How many runs they can execute at a time.": "同時に実行できる run の数。",
    "The workers that are not hidden, by state, and the slots of the running ones.": (
        "状態ごとの worker の数（非表示を除く）と、稼働中の worker の slot 数です。"
    ),
    "Whether this gateway accepts runs, and how far its index is.": (
        "この gateway が run を受け付けるか、索引がどこまで進んでいるかを示します。"
    ),
    "Why it is not ready.": "準備ができていない理由。",
    "Changes of runs that are stored and not in the index yet, at most.": (
        "保存済みで、まだ索引に入っていない run の変更の数（上限の見積もり）。"
    ),
    "The longest first, then other served tags; 100 at most.": (
        "待つ run の多い tag から順に、続いてほかの担当されている tag。最大 100 件です。"
    ),
    "null without `workers:read`.": "`workers:read` がなければ null です。",
    "Nodes that wait for input: `GET /waits` lists them.": "入力待ちの node の数。一覧は `GET /waits` です。",
    "null without `dlq:read`, and for a caller of one tenant: they are those of all tenants.": (
        "すべての tenant の合計です。`dlq:read` がない場合と、一つの tenant の呼び出し元には null です。"
    ),
    "When a run counts as stored.": "run が保存済みとみなされる時点。",
    "How long finished runs are kept. 0: for ever.": "終了した run を保持する秒数。0 は無期限です。",
    # Time series
    "Get Stats": "時系列を取得する",
    "How many runs were submitted and ended, how long they waited and ran, by intervals of a window.": (
        "期間を区間に分け、投入された run と終了した run の数、待ち時間、実行時間を返します。"
    ),
    "Only runs that are stored count: `kept_since` says whether the window is longer than they are kept.": (
        "対象は保存されている run だけです。期間が保持期間より長いかどうかは `kept_since` でわかります。"
    ),
    "An hour before `until` by default.": "省略時は `until` の 1 時間前。",
    "Now by default; 31 days after `since` at most.": "省略時は現在。`since` から最大 31 日です。",
    "How many intervals are as long as the window, at most. They are from a minute to a day long, and an hour at least "
    "in a window of more than a day.": (
        "期間を分ける区間の最大数。区間の長さは 1 分から 1 日で、期間が 1 日を超える場合は 1 時間以上です。"
    ),
    "Only runs of this flow.": "この flow の run だけ。",
    "Only runs with this routing tag.": "この tag の run だけ。",
    "Whole intervals that cover the window.": "期間を覆う区間ごとの値です。",
    "The beginning of the first interval, in unix seconds.": "最初の区間の始まり（unix 秒）。",
    "The end of the last one.": "最後の区間の終わり。",
    "The length of an interval.": "区間の長さ。",
    "Every interval, also those without runs.": "すべての区間（run のない区間も含む）。",
    "Runs that ended before it are removed and count no longer; null when runs are kept for ever.": (
        "これより前に終了した run は削除され、数えられません。無期限に保持する場合は null です。"
    ),
    "An interval.": "一つの区間です。",
    "Its beginning, in unix seconds.": "区間の始まり（unix 秒）。",
    "Within 10 %; null where there was no such run.": "誤差は 10 % 以内。該当する run がなければ null です。",
    "Stored runs by when they were submitted, started and ended. Percentiles are by nearest rank.": (
        "保存されている run を、投入、開始、終了の時刻で数えたものです。パーセンタイルは最近順位法によります。"
    ),
    "The queue time is that of runs that started, from their submission; the run time is that of runs that ended, from "
    "their first start.": (
        "待ち時間は、開始した run の投入から開始まで、実行時間は、終了した run の最初の開始から終了までです。"
    ),
}
