"""`/jobs` and `/tags`."""

from __future__ import annotations

TEXTS = {
    "The new job.": "新しい job です。",
    "Submit Job": "job を投入する",
    "Store and queue a job. 201 means: no kill of any process can lose it now.": (
        "job を保存し、キューに入れます。201 の後は、どのプロセスが強制終了しても失われません。"
    ),
    "Stored and queued; no kill of any process can lose it now": (
        "保存し、キューに入れました。どのプロセスが強制終了しても失われません"
    ),
    "Where the job is.": "job のアドレス。",
    "A job and its tags.": "job とその tag です。",
    "The params of the flow.": "flow の params。",
    "To find the job by.": "job を検索するための tag。",
    "Another name of `tags`.": "`tags` の別名。",
    "Absent: the flow in PYOCO_JOBS_DEFAULT_FLOW.": "省略時は PYOCO_JOBS_DEFAULT_FLOW の flow。",
    "List Jobs": "job を一覧する",
    "The newest jobs come first; archived ones stay out. Runs and executions are among them.": (
        "job を新しい順に返します。アーカイブ済みのものは除き、run と execution を含みます。"
    ),
    "A page may be short, even empty, and not be the last: there are more as long as there is a `nextToken`. Whatever "
    "happens to the jobs meanwhile, each that stays is shown once.": (
        "ページは短いことも空のこともあり、`nextToken` がある限り続きがあります。"
        "その間に job が変化しても、残っているものは一度だけ返されます。"
    ),
    "Repeated: a job has all of them.": "繰り返すと、すべてを持つ job だけになります。",
    "A page, the newest job first. The last page, and only that one, has no `nextToken`.": (
        "新しい順の 1 ページです。`nextToken` がないのは最後のページだけです。"
    ),
    "A job in a list.": "一覧の job です。",
    "Get Job": "job を取得する",
    "One job as it is now, or as it was.": "job の現在または過去の状態です。",
    "A job in its present state.": "job の現在の状態です。",
    "The job's id, as given at submit.": "投入時に返された job の id。",
    "Its end, with any result.": "終了時刻（結果によらず）。",
    "Which workers may run it; null: its nodes are claimed.": (
        "実行できる worker の tag。null の場合、node は claim で取得されます。"
    ),
    "How often it was started.": "開始された回数。",
    "The reason of a failure.": "失敗の理由。",
    "Delete Job": "job を削除する",
    "Stop a job; one that is finished leaves the lists, and can still be read by its id until retention removes it.": (
        "job を停止します。終了したものは一覧から外れ、保持期間中は id で読めます。"
    ),
    "What is not there, for this caller, is deleted already.": "存在しない（見えない）job は、削除済みとして扱います。",
    # Tags
    "Get Tags": "tag を取得する",
    "The tags of a job, in the order in which they were given.": "job の tag を、付けられた順に返します。",
    "Add Tag": "tag を追加する",
    "Put a tag on a job, finished or not, and see all that it has then. Asking twice is asking once.": (
        "job に tag を付け、すべての tag を返します（終了後も可）。繰り返しても 1 回と同じです。"
    ),
    "The tag to add to a job.": "job に追加する tag です。",
    "Remove Tag": "tag を削除する",
    "Remove a tag from a job, finished or not; removing a missing one succeeds.": (
        "job から tag を削除します（終了後も可）。存在しない tag の削除も成功します。"
    ),
    "The tag, percent-encoded; a slash in it may stand as it is.": (
        "パーセントエンコードした tag。スラッシュはそのままでもかまいません。"
    ),
    "List Tags": "tag を一覧する",
    "The tags that jobs have, by their code points, each with the number of jobs; archived ones do not count.": (
        "job の tag を文字コード順に、job 数とともに返します。アーカイブ済みの job は数えません。"
    ),
    "Their prefix.": "tag の先頭の文字列。",
    "A tag and the number of its jobs, without archived ones.": "tag とその job 数です（アーカイブ済みを除く）。",
    "A page, in the order of the tags.": "tag 順の 1 ページです。",
    # Logs
    "Get Job Logs": "job のログを取得する",
    "The log of a job over all its attempts. Tokens and ranges stay valid while it grows.": (
        "すべての attempt を通した job のログです。ログが増えても token と range は有効です。"
    ),
    "A `nextToken` of this log. Absent: from the start.": "このログの `nextToken`。省略時は先頭から。",
    "Only lines of this task.": "この task の行だけ。",
    "A file name; with text/plain and without a query only.": "ファイル名。text/plain でクエリーがない場合だけ。",
    "Only lines of this level or a more severe one.": "このレベル以上の行だけ。",
    "ETags of the caller's copies, or `*`: 304 when one of them matches.": (
        "手元のコピーの ETag、または `*`。一致すれば 304 を返します。"
    ),
    "With text/plain and without a query: a range; several get the whole log.": (
        "text/plain でクエリなしの場合: バイト範囲。複数を指定するとログ全体を返します。"
    ),
    "The ETag of the log whose range is wanted; any other gets the whole log.": (
        "範囲を読むログの ETag。異なればログ全体を返します。"
    ),
    "JSON, or with `Accept: text/plain` the lines as written, each with its newline: without a query the whole log, "
    "else the requested lines. The next position is then in `X-Next-Token` and `X-Log-Complete`.": (
        "JSON です。`Accept: text/plain` の場合は書かれたままの行（改行付き）で、クエリがなければログ全体、"
        "あれば要求された行です。次の位置は `X-Next-Token` と `X-Log-Complete` にあります。"
    ),
    "Strong; changes with every line.": "強い ETag。行が増えるたびに変わります。",
    "Revalidate each time; a 304 is cheap.": "毎回再検証してください。304 の負荷はわずかです。",
    "JSON and text share one address.": "JSON とテキストは同じアドレスです。",
    "With text/plain and without a query only.": "text/plain でクエリなしの場合のみ。",
    "The requested range of bytes.": "要求されたバイト範囲。",
    "Which bytes, of how many.": "範囲と全体のバイト数。",
    "The caller's copy is current.": "手元のコピーが最新です。",
    "How many bytes there are.": "全体のバイト数。",
    "Lines in order. `nextToken` continues behind them; `complete`: the job has ended and these are its last lines.": (
        "順に並んだ行です。続きは `nextToken` で読みます。`complete` は、job が終了し、これが最後の行であることを示します。"
    ),
    "With `task` or `level` a page may have fewer lines than the limit, even none, before the end: continue with "
    "`nextToken`.": (
        "`task` や `level` を指定すると、終わりでなくてもページの行が上限より少ないこと（0 行を含む）があります。"
        "`nextToken` で続けてください。"
    ),
    "Follow Job Log": "job のログを追う",
    "Follow the log of a job, from its first line or any other, until the job is over.": (
        "job のログを、先頭または任意の行から、終了まで順次送ります。"
    ),
    "Events `logEntry`, one per line, with an `id` to resume from; comments are heartbeats. When the job is over and all "
    "its lines are sent, `end` has its status, and the stream closes.": (
        "1 行ごとの `logEntry` event です（`id` で再開可能）。コメントは heartbeat です。"
        "job が終了し、すべての行を送ると、`end` でステータスを送ってストリームを閉じます。"
    ),
    "The job is over and the caller has its end: a browser does not connect again.": (
        "job は終了し、呼び出し元は受信済みです。ブラウザーは再接続しません。"
    ),
    "Hand Out Ticket": "ticket を発行する",
    "A ticket for the WebSocket of this job: valid once, for 30 seconds, at any gateway, with the caller's scopes.": (
        "この job の WebSocket 用の ticket です。どの Gateway でも、呼び出し元の scope で、30 秒間、一度だけ使えます。"
    ),
    "A single-use ticket, its URL and its expiry.": "1 回だけ使える ticket と、その URL、有効期限です。",
}
