"""`--help` of `pyoco-client`."""

from __future__ import annotations

TEXTS = {
    "Only names with this prefix.": ("この接頭辞で始まる名前だけ。"),
    "Only flows that are served under this tag.": ("この tag で提供されている flow だけ。"),
    "List the flows that running workers announce, with parameters (* is required) and their last runs.": (
        "稼働中の worker が公開する flow を、パラメーター（* は必須）と最近の run とともに一覧表示します。"
    ),
    "A flow that workers announce, or a stored graph.": ("worker が公開する flow、または登録済みの graph。"),
    "As a Mermaid flowchart, for Markdown.": ("Markdown 用の Mermaid フローチャートで出力します。"),
    "The version that is served under this tag.": ("この tag で提供されている版。"),
    "Draw a graph as text: one line per task, with the tasks before it. Parameters with a star are required.": (
        "graph をテキストで表示します。1 行に 1 task と、その前の task です。* 付きのパラメーターは必須です。"
    ),
    # Strategies
    "Only with this in their id or title.": "id か title にこの文字列を含むものだけ。",
    "Only with one of these tags; repeatable.": "これらの tag のいずれかを持つものだけ。繰り返し可。",
    "Only of this health: healthy, degraded, unknown; repeatable.": (
        "この health のものだけ（healthy、degraded、unknown）。繰り返し可。"
    ),
    "Only of these instruments; repeatable.": "これらの instrument のものだけ。繰り返し可。",
    "Only enabled or disabled ones; all by default.": "有効（on）または無効（off）なものだけ。既定は all。",
    "By last_checked_at, id, instrument or health; last_checked_at.desc by default.": (
        "並べ替えの項目（last_checked_at、id、instrument、health）と順序。既定は last_checked_at.desc。"
    ),
    "Which page; the first by default.": "ページ番号。既定は 1。",
    "How many per page; 50 by default.": "1 ページの件数。既定は 50。",
    "List registered strategies with the health of their newest result, by page.": (
        "登録済みの strategy を、最新の結果の health とともにページ単位で一覧表示します。"
    ),
    "The id of the strategy.": "strategy の id。",
    "The days of the averages; 30 by default.": "平均の対象とする日数。既定は 30。",
    "How many results at most; 50 by default.": "結果の最大件数。既定は 50。",
    "Show a strategy with averages and its newest results.": "strategy を、平均値と最新の結果とともに表示します。",
    "The id of the request for a recheck.": "recheck の request の id。",
    "Show how far a recheck is, and the health of the strategies that it has checked.": (
        "recheck の進み具合と、確認済みの strategy の health を表示します。"
    ),
    # All commands
    "Submit, show, watch and cancel runs of a pyoco server.": "pyoco server の run を投入・表示・監視・取消します。",
    "PYOCO_SERVER, {url}.": "サーバーのアドレス。既定は PYOCO_SERVER、なければ {url}。",
    "Better by PYOCO_API_KEY.": "API key。PYOCO_API_KEY での指定を推奨します。",
    "A bearer token; better by PYOCO_TOKEN.": "bearer token。PYOCO_TOKEN での指定を推奨します。",
    "PYOCO_PROFILE; of `config`.": "使う profile（`config` で作成）。既定は PYOCO_PROFILE。",
    "Only these fields: id,status.": "この項目だけを JSON で表示します（例: id,status）。",
    "A line per item, with {{field}}, {{field.sub}}, \\n and \\t.": (
        "1 件 1 行の書式。{{field}}、{{field.sub}}、\\n、\\t が使えます。"
    ),
    # Runs
    "Run a flow that the workers serve. Params are merged in the order given, words last; the last one wins.": (
        "worker が持つ flow を実行します。params は指定順、最後に KEY=VALUE の語の順で統合され、後のものが優先されます。"
    ),
    "The flow and its params.": "flow と、その params。",
    "The flow, as an option.": "flow をオプションで指定します。",
    "Its params; the same as --param.": "params（--param と同じ）。",
    "Show its output on stdout while it runs, and its status on stderr.": (
        "実行中の出力を標準出力に、ステータスを標準エラーに表示します。"
    ),
    "Which workers may take it; the server's default tag if absent.": (
        "実行できる worker の tag。省略時はサーバーの既定の tag。"
    ),
    "Labels, joined by commas; repeatable.": "ラベル。カンマ区切り、繰り返し可。",
    "Params from a JSON or YAML file, or - for stdin.": "params の JSON・YAML ファイル。- は標準入力。",
    "Params as a JSON object.": "params（JSON オブジェクト）。",
    "One param; the value is JSON or text.": "params の 1 項目。値は JSON か文字列。",
    "Stop a run that takes longer; it is then FAILED.": "これより長い run を停止します（FAILED になります）。",
    "Wait for the end and print the run.": "終了まで待ち、run を表示します。",
    "Show it while it runs, as `watch` does.": "`watch` と同じように実行中の様子を表示します。",
    "Stop waiting; the run continues.": "この秒数で待機をやめます。run は継続します。",
    "What to print: json, or status with --watch.": "出力形式。既定は json、--watch では status。",
    "What to print: json, or status with filters.": "出力形式。既定は json、条件による指定では status。",
    "Run a flow.yaml; its params are the flow's defaults, overridden by those given.": (
        "flow.yaml を実行します。params は flow の defaults で、指定したものが優先されます。"
    ),
    "Refuse what no running worker can run, or queue it all the same.": (
        "稼働中の worker が実行できないものを拒否するか、それでもキューに入れるか。"
    ),
    "The flow.yaml to run.": "実行する flow.yaml。",
    "The name of the flow.": "flow の名前。",
    "Show runs, as they are or as they were.": "run の現在または過去の状態を表示します。",
    "The run: its id or its beginning, or @last.": "run の id かその先頭部分、または @last（最後に投入したもの）。",
    "The runs: ids or their beginnings, or @last.": "run の id かその先頭部分、または @last（最後に投入したもの）。複数可。",
    "As it was: a time as for --since, or a version.": "過去の状態。--since と同じ形式の時刻か version。",
    "Print the address of the dashboard for a browser, or that of a run in it.": (
        "ブラウザで開く dashboard のアドレスを表示します。run を指定すると、その run のアドレスになります。"
    ),
    "Run it again: a new run with the same flow, tag, labels and YAML, and its params where none are given.": (
        "同じ flow・tag・ラベル・YAML の新しい run として再実行します。指定しない params は元の run と同じです。"
    ),
    "The same, as an option.": "同じものをオプションで指定します。",
    "More fields; may be repeated.": "追加で取得する項目。繰り返し可。",
    "Show the tasks of a run and their records.": "run の task とその記録を表示します。",
    "Print what a run returned, as JSON: the output of its last task, or outputs by task if there are several.": (
        "run の結果を JSON で表示します。最後の task の出力で、複数ある場合は task ごとの出力です。"
    ),
    "Wait for the end of the run.": "run の終了まで待ちます。",
    'List runs, last changed first; as JSON an array, with --cursor ("" to begin) an object with the next cursor.': (
        'run を最近変化した順に一覧表示します。JSON では配列、--cursor（最初は ""）では次の cursor を含むオブジェクトです。'
    ),
    "Submitted then or later: 1h ago, a date, ISO 8601.": (
        "この時刻以降に投入されたものだけ。1h（1 時間前）、日付、ISO 8601。"
    ),
    "Submitted before then.": "この時刻より前に投入されたものだけ。",
    "Only runs of this status.": "このステータスの run だけ。",
    "Only runs of this flow.": "この flow の run だけ。",
    "Only runs with this routing tag.": "このルーティング tag の run だけ。",
    "How many at most; 50 by default.": "最大件数。既定は 50。",
    'List runs page by page: items, and the cursor of the next page. The same as `list --cursor ""`.': (
        'run をページ単位で一覧表示します（items と次のページの cursor）。`list --cursor ""` と同じです。'
    ),
    "Only runs that changed after this time.": "この時刻より後に変化した run だけ。",
    "Continue behind a page: its next_cursor or nextCursor.": "前のページの next_cursor か nextCursor。続きを表示します。",
    "Only runs whose id begins with this.": "id がこの文字列で始まる run だけ。",
    "Only runs whose error contains this text.": "エラーにこの文字列を含む run だけ。",
    "Only of this flow.yaml.": "この flow.yaml の run だけ。",
    "Show a run while it runs, until it ends.": "run の様子を終了まで表示します。",
    "Exit with 1 unless it ends COMPLETED.": "COMPLETED 以外で終わったら終了コード 1。",
    "Lines of text or JSON.": "出力形式。テキストの行か JSON。",
    "Show the output of a run: each line with its time (UTC) and its task.": (
        "run の出力を表示します。各行に時刻（UTC）と task が付きます。"
    ),
    "Continue with new output, until the run ends.": "run の終了まで、新しい出力を表示し続けます。",
    "Only the last lines, this many.": "末尾からこの行数だけ。",
    "Cancel runs by id, or all that match filters. A finished run stays as it is, which is not an error.": (
        "id で指定した run、または条件に合うすべての run を取り消します。"
        "終了済みの run は変わりません（エラーにはなりません）。"
    ),
    "Do not ask before runs are cancelled by filters.": "条件で指定した run を、確認せずに取り消します。",
    "Wait until they have ended.": "終了まで待ちます。",
    "Why; is stored with the run.": "理由。run とともに保存されます。",
    "Explain why runs are not running, or why they ended as they did.": (
        "run が実行されない理由、またはその結果で終わった理由を説明します。"
    ),
    # Executions
    "Create an execution and start it. Params are merged in the order given, words last; the last one wins.": (
        "execution を作成して開始します。params は指定順、最後に KEY=VALUE の語の順で統合され、後のものが優先されます。"
    ),
    "A graph, a flow, or any name for an open graph.": "graph か flow の名前。ほかの名前なら open graph になります。",
    "For a flow: which workers may run it.": "flow の場合: 実行できる worker の tag。",
    "Show its nodes until it has ended.": "終了まで node の様子を表示します。",
    "Show an execution and its nodes, as they are or as they were.": (
        "execution とその node の現在または過去の状態を表示します。"
    ),
    "The execution: its id or its beginning, or @last.": "execution の id かその先頭部分、または @last。",
    "List the events of an execution: what happened, when (UTC) and by whom; as JSON, one event per line.": (
        "execution の event（内容、UTC の時刻、実行者）を一覧表示します。JSON では 1 行に 1 event です。"
    ),
    "Continue with new events, until it has ended.": "終了まで、新しい event を表示し続けます。",
    "List the nodes that wait for a decision, longest waiting first.": (
        "判断を待っている node を、待ち時間の長い順に一覧表示します。"
    ),
    "Only of this graph.": "この graph のものだけ。",
    "Resume the node that waits for a decision, or reject it. On a terminal, asks for the choice.": (
        "判断を待っている node を再開、または却下します。端末では選択肢を尋ねます。"
    ),
    "Which node, if several wait.": "対象の node（複数が待っている場合）。",
    "The answer to the prompt: one of its choices, if it has some.": "prompt への回答。選択肢があれば、そのいずれか。",
    "Fail the node instead; its graph fails.": "node を失敗させます。graph も失敗します。",
    "Why it is rejected.": "却下の理由。",
    "List the stored graphs and the flows that workers announce, by id.": (
        "登録済みの graph と、worker が公表している flow を id 順に一覧表示します。"
    ),
    "Only ids with this prefix.": "この文字列で始まる id だけ。",
    "Store a graph under a name. A change makes a new version; an equal graph changes nothing.": (
        "graph を登録します。変更すると新しい version になり、同じ内容なら変わりません。"
    ),
    "The graph, as JSON or YAML.": "graph の JSON・YAML ファイル。",
    "Its name; by default from the file.": "graph の名前。既定はファイル内の名前。",
    "Fail unless this is current; 0: unless it is new.": (
        "現在の version がこれと異なれば失敗します。0 は新規の場合だけ登録します。"
    ),
    # Workers and wheels
    "List the workers, or hide one from the lists.": "worker を一覧表示します。一覧で非表示にもできます。",
    "active (the default): without stopped ones.": "対象。active（既定）は停止した worker を除きます。",
    "Only workers in this state.": "この状態の worker だけ。",
    "Also list hidden workers.": "非表示の worker も含めます。",
    "How many at most.": "最大件数。",
    "Hide this worker from lists.": "この worker を一覧で非表示にします。",
    "Show it in lists again.": "この worker を再び一覧に表示します。",
    "List the wheels of your tenant and the shared ones, by name.": "自分の tenant の wheel と共有の wheel を名前順に一覧表示します。",
    "List uploads and deletions of wheels, newest first.": "wheel の登録と削除を新しい順に一覧表示します。",
    "How many at most; 100 by default.": "最大件数。既定は 100。",
    "Only events of this wheel.": "この wheel のものだけ。",
    "Only events of this kind.": "この種類のものだけ。",
    "Register a wheel for your tenant; workers install it. Its version must be newer than every registered one.": (
        "自分の tenant の wheel を登録し、worker にインストールさせます。登録済みのものより新しいバージョンが必要です。"
    ),
    "For runs of all tenants; for administrators.": "全 tenant の run で使う wheel として登録（管理者のみ）。",
    "The one that all tenants share.": "全 tenant で共有の wheel。",
    "That of this tenant; for administrators.": "この tenant の wheel（管理者のみ）。",
    "The wheel, under its own name.": "wheel のファイル。",
    "Only workers of these tags; repeatable.": "対象とする worker の tag。繰り返し可。",
    "Has no effect; for older scripts.": "効果はありません（古いスクリプトとの互換用）。",
    "Download a wheel. A partial download writes nothing.": (
        "wheel をダウンロードします。途中で失敗した場合、ファイルは作られません。"
    ),
    "As in demo-1.0-py3-none-any.whl.": "wheel のファイル名（例: demo-1.0-py3-none-any.whl）。",
    "A file or folder; by default the current one.": "保存先のファイルかフォルダ。既定は現在のフォルダ。",
    "Remove a wheel. Workers uninstall it at their next synchronisation.": (
        "wheel を削除します。worker は次の同期でアンインストールします。"
    ),
    # Operation
    "Print the metrics of the server in the format of Prometheus.": "サーバーのメトリクスを Prometheus 形式で表示します。",
    "List the dead letters (failed jobs), newest first.": "dead letter（失敗した job）を新しい順に一覧表示します。",
    "Only of this reason, such as execution_error or max_deliver.": (
        "この理由のものだけ（execution_error、max_deliver など）。"
    ),
    "Only jobs with this routing tag.": "このルーティング tag の job だけ。",
    "Only jobs of this flow.": "この flow の job だけ。",
    "Run the job of a dead letter again, as a new run with the same flow, params, tag, labels and YAML.": (
        "dead letter の job を、同じ flow・params・tag・ラベル・YAML の新しい run として再実行します。"
    ),
    "The number of the dead letter, as `dlq` shows it.": "dead letter の番号（`dlq` で表示されるもの）。",
    "Show the new run while it runs, as `watch` does.": "`watch` と同じように新しい run の様子を表示します。",
    "Check server, broker, credentials, workers and tags, and print what to do.": (
        "サーバー・broker・認証情報・worker・tag を確認し、対処を表示します。"
    ),
    "Also check that a worker serves this tag.": "この tag を処理する worker がいることも確認します。",
    "Write a first flow.yaml with its tasks.py, ready to run.": (
        "すぐに実行できる最初の flow.yaml と tasks.py を作成します。"
    ),
    "Where to write; created if missing.": "作成先のフォルダ。なければ作成します。",
    "Replace existing files.": "既存のファイルを置き換えます。",
    "Print the script for completion of commands and options in a shell.": (
        "シェルでコマンドとオプションを補完するスクリプトを表示します。"
    ),
    "bash, zsh or fish.": "bash、zsh、fish のいずれか。",
    "Print the version of this client; `doctor` shows that of the server.": (
        "このクライアントのバージョンを表示します。サーバーのバージョンは `doctor` で確認できます。"
    ),
    # Jobs
    "Submit, list, show, label and remove jobs; read and follow their output.": (
        "job の投入・一覧・表示・ラベル付け・削除と、出力の表示をします。"
    ),
    "Submit a job. Params are merged in the order given, words last; the last one wins.": (
        "job を投入します。params は指定順、最後に KEY=VALUE の語の順で統合され、後のものが優先されます。"
    ),
    "Which flow runs it; the server's default flow if absent.": "実行する flow。省略時はサーバーの既定の flow。",
    "A label to find it by; may be repeated.": "検索用のラベル。繰り返し可。",
    "Stop a job that takes longer; it is then failed.": "これより長い job を停止します（failed になります）。",
    "Show its output, as `job follow` does.": "`job follow` と同じように出力を表示します。",
    "What to print: json, or with --follow lines.": "出力形式。既定は json、--follow では行。",
    "List jobs, newest first; removed ones are left out.": "job を新しい順に一覧表示します（削除済みを除く）。",
    "Only jobs with this label; repeatable: with all.": "このラベルの job だけ。繰り返すと、すべてを持つ job だけ。",
    "Only jobs of this status.": "このステータスの job だけ。",
    "Show jobs, as they are or as they were.": "job の現在または過去の状態を表示します。",
    "The job: its id or its beginning, or @last.": "job の id かその先頭部分、または @last（最後に投入したもの）。",
    "The jobs: ids or their beginnings, or @last.": "job の id かその先頭部分、または @last（最後に投入したもの）。複数可。",
    "Show the output of a job so far: each line with its time (UTC) and its task.": (
        "これまでの job の出力を表示します。各行に時刻（UTC）と task が付きます。"
    ),
    "Only lines of this task.": "この task の行だけ。",
    "Only lines with TEXT; upper-case letters make case count.": (
        "TEXT を含む行だけ。大文字を含む場合は大文字と小文字を区別します。"
    ),
    "Only lines of this level or more severe.": "このレベル以上の行だけ。",
    "Continue here: a token of `job logs`.": "ここから続けます（`job logs` の token）。",
    "The whole log; continues FILE. - is stdout.": "ログ全体を FILE に保存します（続きから再開）。- は標準出力。",
    "Show the output of a job until it ends. Exits with 1 unless it completes.": (
        "job の出力を終了まで表示します。正常に完了しなければ終了コード 1 です。"
    ),
    "Continue here: a place that Ctrl-C printed.": "ここから続けます（Ctrl-C で表示された位置）。",
    "Add labels to a job, remove or list them, also after its end; prints its labels, one per line.": (
        "job のラベルを追加・削除・一覧します（終了後も可）。ラベルを 1 行に 1 つ表示します。"
    ),
    "add, rm or ls.": "add、rm、ls のいずれか。",
    "The labels to add or remove.": "追加・削除するラベル。",
    "List the labels of all jobs, and how many jobs have each.": "全 job のラベルと、それぞれの job 数を一覧表示します。",
    "Only labels with this prefix.": "この文字列で始まるラベルだけ。",
    "Cancel jobs that still run, and remove finished ones from the lists. A missing job is not an error.": (
        "実行中の job を取り消し、終了した job を一覧から外します。存在しない job はエラーになりません。"
    ),
    # Config
    "Store the server, credentials and preferences in profiles.": (
        "サーバー・認証情報・表示の設定を profile に保存します。"
    ),
    "Store a value in a profile, which is created if it is new.": "profile に値を保存します。なければ作成します。",
    "server, api-key, token, language or output.": "server、api-key、token、language、output のいずれか。",
    "Without it (better for secrets) it is read from stdin.": "値。省略すると標準入力から読みます（秘密の値に推奨）。",
    "Print a value of a profile, also a secret one.": "profile の値を表示します（秘密の値も）。",
    "Remove a value from a profile.": "profile から値を削除します。",
    "List the profiles and their values; secrets are masked, * marks the profile in use.": (
        "profile とその値を一覧表示します。秘密の値は伏せられ、* は使用中の profile です。"
    ),
    "Choose the profile that is used unless --profile or PYOCO_PROFILE names another.": (
        "--profile や PYOCO_PROFILE の指定がないときに使う profile を選びます。"
    ),
    "The profile to use from now on.": "今後使う profile。",
    "Show runs by status, queues, workers, what waits for people, and whether the gateway accepts runs.": (
        "状態ごとの run、キュー、worker、対応待ちの数と、gateway が run を受け付けるかを表示します。"
    ),
    "List how many runs were submitted and ended, and how long they waited and ran, by intervals.": (
        "投入された run と終了した run の数、待ち時間、実行時間を区間ごとに一覧表示します。"
    ),
    "From then on: 24h ago, a date, ISO 8601; 1h by default.": "この時刻から: 24h ago、日付、ISO 8601。省略時は 1h。",
    "Up to then; now by default.": "この時刻まで。省略時は現在。",
    "How many intervals at most; 60 by default.": "区間の最大数。省略時は 60。",
    "List who changed what, newest first, of all tenants. For administrators.": (
        "誰が何を変更したかを、すべての tenant について新しい順に一覧表示します。管理者用です。"
    ),
    "Only of this API key id, token subject or operator.": "この API key の id、トークンの subject、操作者の記録だけ。",
    "Only this action, such as run.cancel or graph.put.": "この操作だけ（run.cancel、graph.put など）。",
    "Only of this run, key, wheel, graph, worker or strategy, by its id.": (
        "この id の run、key、wheel、graph、worker、strategy の記録だけ。"
    ),
    "Only of this X-Request-Id.": "この X-Request-Id の記録だけ。",
    "Done then or later: 1h ago, a date, ISO 8601.": "この時刻以降の操作: 1h ago、日付、ISO 8601。",
    "Done earlier than then.": "この時刻より前の操作。",
}
