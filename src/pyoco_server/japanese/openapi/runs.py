"""`/runs`: runs, their tasks, logs and streams, and the explanation."""

from __future__ import annotations

TEXTS = {
    "Rerun": "run を再実行する",
    "Run it again: a new run with the same flow, params, tag, labels and YAML. The original stays as it is.": (
        "同じ flow・params・tag・ラベル・YAML の新しい run として再実行します。元の run は変わりません。"
    ),
    "Changes of a rerun.": "再実行での変更です。",
    "They override those of the original.": "元の run の params より優先されます。",
    "The new run. That of a graph is RUNNING at once: its first nodes are ready.": (
        "新しい run です。graph の run は最初の node が実行可能になり、すぐに RUNNING になります。"
    ),
    "The run that was run again as this one.": "この run の元になった run です。",
    "A JSON object with values for keys of `flow.defaults`, which it overrides.": (
        "`flow.defaults` のキーに対する値の JSON オブジェクト。defaults より優先されます。"
    ),
    "Submit Run": "run を投入する",
    "Store and queue a run. 200 means: no kill of any process can lose it now.": (
        "run を保存し、キューに入れます。200 の後は、どのプロセスが強制終了しても失われません。"
    ),
    "A run of a flow.": "flow の run です。",
    "Which workers may run it; the default tag when absent.": "実行できる worker の tag。省略時は既定の tag。",
    "Labels; `[tag]` when absent.": "ラベル。省略時は `[tag]`。",
    "Time limit of an attempt; then the run is stopped and FAILED (ERR-PYOCO-0042).": (
        "1 回の attempt の制限時間。超えると run を停止し、FAILED にします（ERR-PYOCO-0042）。"
    ),
    "The run is stored and queued with this durability.": "run は保存され、キューに入りました。保存の耐久性も示します。",
    "List Runs": "run を一覧する",
    "The runs changed last come first; archived ones stay out.": (
        "run を最近変化した順に返します。アーカイブ済みのものは除きます。"
    ),
    "An array, `[]` when there are none. With `cursor`, `updated_after`, `error` or `workflow_yaml_sha256` an object, to "
    "be read page by page until `next_cursor` is null. However the runs change meanwhile, one that stays as it was is "
    "shown once, and one that changed and still fits at least once in its newer state: behind the oldest come those "
    "that moved.": (
        "結果は配列で、なければ `[]` です。`cursor`、`updated_after`、`error`、`workflow_yaml_sha256` を指定するとオブジェクトになり、"
        "`next_cursor` が null になるまでページごとに読みます。読む間に run が変化しても、変わらないものは一度だけ、"
        "変化して条件に合うものは新しい状態で少なくとも一度返されます（移動したものは最も古いものの後に続きます）。"
    ),
    "Labels; repeated: a run has all of them.": "ラベル。繰り返すと、すべてを持つ run だけになります。",
    "Runs of this flow.yaml, by the digest that their snapshots show. The answer is an object.": (
        "この flow.yaml の run だけ。スナップショットにあるダイジェストで指定します。応答はオブジェクトです。"
    ),
    "Unix seconds: runs that changed later than this. The answer is an object.": (
        "Unix 秒。これより後に変化した run だけ。応答はオブジェクトです。"
    ),
    "Runs whose `error` contains this text, in any case. The answer is an object; a page may be short, even empty, and "
    "have a `next_cursor`.": (
        "`error` にこの文字列を含む run だけ（大文字と小文字は区別しません）。応答はオブジェクトです。ページは短いことも"
        "空のこともあり、その場合も続きがあれば `next_cursor` があります。"
    ),
    "The number of all matching runs; null with other filters than `status`.": (
        "条件に合うすべての run の数です。`status` 以外のフィルターがあるときは null です。"
    ),
    "Empty to start, then `next_cursor` of the page before, with the same filters. The answer is an object.": (
        "最初は空、続きは前のページの `next_cursor` です（フィルターは同じ）。応答はオブジェクトです。"
    ),
    "Any of them returns whole snapshots with task_records instead of summaries. Beyond 8 MiB a page ends early, and an "
    "array continues with summaries.": (
        "いずれかを指定すると、概要の代わりに task_records を含むスナップショット全体を返します。"
        "8 MiB を超えるとページは早めに終わり、配列の残りは概要になります。"
    ),
    "Get Run": "run を取得する",
    "One run as it is now, or as it was, then without facts about its worker.": (
        "run の現在または過去の状態です。過去の状態には worker の情報がありません。"
    ),
    "The run's id, as given at submit.": "投入時に返された run の id。",
    "`records` adds task_records; `full` and `all` add all.": (
        "`records` は task_records を、`full` と `all` はすべてを追加します。"
    ),
    "What a completed run returned: the output of the task without successors, or an object of outputs by task if "
    "there are several. Absent while there is none.": (
        "完了した run の結果です。後続のない task の出力、複数ある場合は task ごとの出力のオブジェクトです。ない間は省略されます。"
    ),
    "true: the result was too large; it is null, or described by its size and beginning.": (
        "true なら結果が大きすぎました。結果は null か、サイズと先頭部分の説明になります。"
    ),
    "Get Tasks": "task を取得する",
    "The tasks of a run with their records.": "run の task とその記録です。",
    "Cancel Run": "run を取り消す",
    "Stop a run. Of a finished run it shows the present state; asking twice is asking once.": (
        "run を停止します。終了した run では現在の状態を返します。繰り返しても 1 回と同じです。"
    ),
    "The reason of a cancel.": "取消の理由です。",
    "Get Explanation": "run を説明する",
    "Why the run is not running, or ended so; in English, or in Japanese by `Accept-Language`.": (
        "run が実行されない理由、またはその結果で終わった理由です。`Accept-Language` により英語か日本語で返します。"
    ),
    "Why; the most telling reason first. More fields, facts and codes may be added at any time.": (
        "理由です。最も重要なものが先頭です。項目・事実・code は追加されることがあります。"
    ),
    "One reason: a code for programs, a text for people, and the facts behind both.": (
        "1 つの理由です。プログラム用の code、人が読む文、その根拠となる事実からなります。"
    ),
    "The worker that has or had the run; `state` is null when this instance of it is no longer registered.": (
        "run を実行中、または実行していた worker です。そのインスタンスの登録がなければ `state` は null です。"
    ),
    "The queue of the run's tag: jobs never handed out, handed out, and handed out more than once.": (
        "run の tag のキューです。未配信、配信済み、複数回配信された job の数です。"
    ),
    "`ahead`: runs of the tag that wait longer.": "`ahead`: 同じ tag で先に待っている run の数。",
    "Submit Run Yaml": "flow.yaml の run を投入する",
    "Store and queue a run of the flow in a flow.yaml. Nothing of it is imported here; a bad file is a 422.": (
        "flow.yaml の flow の run を保存し、キューに入れます。ここでは何も import しません。不正なファイルは 422 です。"
    ),
    "A flow.yaml: UTF-8, at most PYOCO_WORKFLOW_YAML_MAX_BYTES; see docs/reference/flow-yaml.md.": (
        "flow.yaml（UTF-8、PYOCO_WORKFLOW_YAML_MAX_BYTES 以下）。docs/reference/flow-yaml.md を参照してください。"
    ),
    "A run of a flow.yaml. Its params are the file's `flow.defaults`.": (
        "flow.yaml の run です。params はファイルの `flow.defaults` です。"
    ),
    "Get Run Logs": "run のログを取得する",
    "The log of a run over all its attempts. A token stays valid while it grows.": (
        "すべての attempt を通した run のログです。ログが増えても token は有効です。"
    ),
    "The `next_token` of an earlier response. Absent: from the start.": "以前の応答の `next_token`。省略時は先頭から。",
    "JSON, or with `Accept: text/plain` the lines as written, each with its newline; the next position is then in "
    "`X-Next-Token` and `X-Log-Complete`.": (
        "JSON です。`Accept: text/plain` の場合は書かれたままの行（改行付き）で、次の位置は `X-Next-Token` と "
        "`X-Log-Complete` にあります。"
    ),
    "Lines in order. `next_token` continues behind them; `complete`: the run is over and these are its last lines.": (
        "順に並んだ行です。続きは `next_token` で読みます。`complete` は、run が終了し、これが最後の行であることを示します。"
    ),
    "With `q`, `task` or `level` a page may have fewer lines than the limit, even none, before the end: continue with "
    "`next_token`.": (
        "`q`、`task`、`level` を指定すると、末尾の前でも上限より少ない行、または 0 行を返すことがあります。"
        "`next_token` で続けてください。"
    ),
    "The number of the last line that was looked at.": "確認し終えた最後の行の番号。",
    "How many lines are stored.": "保存されている行数。",
    "Their size as text in bytes.": "テキストとしての大きさ（バイト）。",
    "Begin with this line, counted from 1, instead.": "代わりにこの行（1 から数える）から始めます。",
    "Only lines with this text. A text without an upper-case letter is found in any case.": (
        "この文字列を含む行だけ。大文字を含まない文字列は、大文字と小文字を区別せずに探します。"
    ),
    "Whether the case of `q` counts. Absent: if it has an upper-case letter.": (
        "`q` の大文字と小文字を区別するか。省略時は、大文字を含む場合に区別します。"
    ),
    "Search Run Log": "run のログを検索する",
    "The numbers of the lines that match, without the lines. Each request searches about 4 MiB of the log.": (
        "一致する行の番号だけを返します。1 回の要求でログの約 4 MiB を検索します。"
    ),
    "Most numbers of a response.": "応答に含める番号の最大数。",
    "Numbers of lines in order, of a bounded part of the log.": "ログの一定の範囲で一致した行の番号を、順に返します。",
    "Continue with `next_token` until `complete`, or, while the run is not over, until `scanned_to` reaches `lines`.": (
        "`complete` になるまで、run が終了していない間は `scanned_to` が "
        "`lines` に達するまで、`next_token` で続けてください。"
    ),
    "`from_line` of the log begins with such a line.": "ログの `from_line` に指定すると、その行から読めます。",
    "The number of the last line that was searched.": "検索し終えた最後の行の番号。",
    "Watch Run": "run を監視する",
    "Follow a run: what it is now, then every change, until it is finished.": (
        "run の現在の状態と、その後のすべての変化を、終了まで送ります。"
    ),
    "Unix seconds: only later changes.": "Unix 秒。これより後の変化だけ。",
    "End the stream after this; absent: with the run.": "この時間でストリームを終えます。省略時は run の終了まで。",
    "Events `snapshot` (something changed; has an `id` to resume from) and `heartbeat` (nothing did). The data of each "
    "is `{{run_id, snapshot, ts}}`: a RunSnapshot and the unix seconds at which the run was in that state. The stream "
    "ends right after the snapshot of a finished run.": (
        "`snapshot`（変化あり。再開用の `id` を持つ）と `heartbeat`（変化なし）の event です。data は "
        "`{{run_id, snapshot, ts}}` で、RunSnapshot と、run がその状態だった時刻（Unix 秒）です。"
        "終了した run の snapshot の直後にストリームが終わります。"
    ),
    "The run is finished and the caller has seen it: a browser does not connect again.": (
        "run は終了し、呼び出し元はそれを受信済みです。ブラウザーは再接続しません。"
    ),
    # Snapshots
    "A run in its present state. More fields may be added at any time.": (
        "run の現在の状態です。項目は追加されることがあります。"
    ),
    "A run in a list.": "一覧の run です。",
    "Grows with every change of the run.": "run が変化するたびに増えます。",
    "The run that this one replays from a dead letter.": "dead letter から再実行した元の run。",
    "The task whose limit it is; absent for that of the run.": "この制限時間を持つ task。run の制限時間ならありません。",
    "A hash of the flows' sources that it ran with; absent when its worker names none.": (
        "実行に使った flow のソースのハッシュ。worker が示さなければありません。"
    ),
    "The wheels of the registry that it used; absent when its worker syncs none.": (
        "使用した登録済み wheel。worker が同期していなければありません。"
    ),
    "A wheel of the registry that a run used.": "run が使用した登録済みの wheel です。",
    "Whether the present or last worker of the run is alive.": "現在または最後の worker が稼働しているか。",
    "Its last heartbeat; null when unknown.": "最後の heartbeat。不明な場合は null。",
    "Its tags; null when unknown.": "worker の tag。不明な場合は null。",
    "RUNNING without a heartbeat for too long; never a failure.": (
        "RUNNING のまま heartbeat が長く途絶えています。失敗を意味しません。"
    ),
    "A time limit that was reached.": "超過した制限時間です。",
    "The state of a cancel.": "取消の状態です。",
    "A node in its present state.": "node の現在の状態です。",
}
