"""`/executions`, `/graphs` and `/waits`."""

from __future__ import annotations

TEXTS = {
    "Reject (422, ERR-PYOCO-0083) what is neither a graph nor a flow, and what a flow does not accept, as far as the "
    "running workers announce all of their flows. Otherwise these are `warnings`.": (
        "graph でも flow でもない名前や、flow が受け付けない指定を拒否します（422、ERR-PYOCO-0083）。"
        "稼働中の worker がすべての flow を公開している範囲で判断します。指定しない場合は `warnings` になります。"
    ),
    # Commands
    "Create an execution": "execution を作成する",
    "Create an execution. It begins with its start.": "execution を作成します。start で始まります。",
    "Accepted; when it is answered no kill of any process can lose it": (
        "受理しました。応答の後は、どのプロセスが強制終了しても失われません"
    ),
    "The same request was accepted before": "同じリクエストを受理済みです",
    "What to execute: a stored graph, a flow that workers announce, or any other name for an open graph.": (
        "実行するもの: 登録済みの graph、worker が公表している flow、またはほかの名前（open graph）。"
    ),
    "For a flow: which workers may run it. Absent: the default tag, or one that it is announced under.": (
        "flow の場合: 実行できる worker の tag。省略時は既定の tag か、flow を公表している tag。"
    ),
    "Start an execution: the first nodes of a graph are ready; the job of a flow is in the queue of its tag": (
        "execution を開始する。graph は最初の node が実行可能になり、flow は job が tag のキューに入る"
    ),
    "Start an execution: the first nodes of a graph are ready; the job of a flow is in the queue of its tag.": (
        "execution を開始します。graph は最初の node が実行可能になり、flow は job が tag のキューに入ります。"
    ),
    "No fields.": "項目はありません。",
    "Cancel an execution": "execution を取り消す",
    "Cancel an execution. Accepted at any time before its end, also repeatedly; it then ends CANCELED.": (
        "execution を取り消します。終了前ならいつでも、繰り返しても受け付け、CANCELED で終わります。"
    ),
    "Take a finished execution out of the default lists; it can still be read by its id": (
        "終了した execution を既定の一覧から外す（id では読める）"
    ),
    "Take a finished execution out of the default lists; it can still be read by its id.": (
        "終了した execution を既定の一覧から外します。id では引き続き読めます。"
    ),
    "End an open graph with success": "open graph を成功で終える",
    "End an open graph with success. A known graph completes by itself.": (
        "open graph を成功で終えます。登録済みの graph は自動で完了します。"
    ),
    "Fail an execution whose nodes are claimed one by one": "node を 1 つずつ取得する execution を失敗にする",
    "Fail an execution whose nodes are claimed one by one.": "node を 1 つずつ取得する execution を失敗にします。",
    "Why the execution fails.": "execution が失敗する理由です。",
    "An error.": "エラーの内容です。",
    "Start a node": "node を開始する",
    "Start a node. In an open graph it need not exist before.": (
        "node を開始します。open graph では、あらかじめ存在しなくてもかまいません。"
    ),
    "The holder of the node. A higher attempt takes it over from a holder without a valid lease.": (
        "node の担当です。より大きい attempt は、lease の切れた担当から node を引き継ぎます。"
    ),
    "The start of the node; absent: the last.": "node の何回目の開始か。省略時は最後のもの。",
    "The node may be claimed again after this silence of its holder; `progress` renews it.": (
        "担当からこの時間応答がないと、node は再び取得可能になります。`progress` で更新します。"
    ),
    "Report the progress of a node": "node の進捗を報告する",
    "Report the progress of a node. Renews its lease.": "node の進捗を報告します。lease も更新します。",
    "The progress of the node in percent.": "node の進捗（パーセント）です。",
    "Let the node wait for a decision: it is then listed by `GET /waits`": (
        "node を判断待ちにする（`GET /waits` の一覧に入る）"
    ),
    "Let the node wait for a decision: it is then listed by `GET /waits`.": (
        "node を判断待ちにします。`GET /waits` の一覧に入ります。"
    ),
    "What the node waits for. A caller with the key resumes it.": "node が待つものです。key を知る呼び出し元が再開します。",
    "What a person is shown; at most 16 KiB. The answer must be one of its `choices`, if any.": (
        "人に表示する内容。16 KiB 以下。`choices` があれば、回答はそのいずれかです。"
    ),
    "The node fails after this time.": "この時間が過ぎると node は失敗します。",
    "Resume a waiting node by its key": "判断待ちの node を key で再開する",
    "Resume a waiting node by its key. A wait node succeeds with it.": (
        "判断待ちの node を key で再開します。wait node はこれで成功します。"
    ),
    "The key, and the answer to the prompt, which becomes the output of a wait node.": (
        "key と、prompt への回答です。回答は wait node の output になります。"
    ),
    "At most 64 KiB.": "64 KiB 以下。",
    "At most 64 KiB. If the prompt has `choices`: one of them, or an object with it as `choice`.": (
        "64 KiB 以下。prompt に `choices` があれば、そのいずれか、またはそれを `choice` に持つオブジェクト。"
    ),
    "Complete a node": "node を完了する",
    "Complete a node. In a known graph the following nodes become ready with the same event.": (
        "node を完了します。登録済みの graph では、同じ event で後続の node が実行可能になります。"
    ),
    "The output of the node.": "node の output です。",
    "Fail a node, also a waiting one": "node を失敗にする（判断待ちも可）",
    "Fail a node, also a waiting one. A known graph fails with it.": (
        "node を失敗にします（判断待ちも可）。登録済みの graph はともに失敗します。"
    ),
    "Why the node fails.": "node が失敗する理由です。",
    "The command was accepted; its effects are in the events.": "コマンドを受理しました。結果は event にあります。",
    # Reads
    "Get Execution": "execution を取得する",
    "An execution as its events have made it.": "event から得られる execution の状態です。",
    "The execution's id, as given at its creation.": "作成時に返された execution の id。",
    "`records`: every output, however many; `graph`: also its nodes and edges, if they are known.": (
        "`records`: すべての output（数によらず）。`graph`: node と edge も含めます。"
    ),
    "Of pages: `desc` begins with the newest.": "ページの順序。`desc` は新しいものからです。",
    "Of pages: only the events of this node.": "ページの場合、この node の event のみ。",
    "An execution in its present state.": "execution の現在の状態です。",
    "An execution in a list.": "一覧の execution です。",
    "Of a flow: which workers may run it.": "flow の場合: 実行できる worker の tag。",
    "With `include=graph` only; absent for a flow without edges, or with loops or branches.": (
        "`include=graph` の場合のみ。edge のない flow、繰り返しや分岐のある flow では省略されます。"
    ),
    "Some outputs are left out here; `?include=records` reads them from the log.": (
        "一部の output を省いています。`?include=records` でログから読み取ります。"
    ),
    "The execution as it was then: `GET /executions/{{executionId}}?at=<version>`.": (
        "その時点の execution: `GET /executions/{{executionId}}?at=<version>`。"
    ),
    "The request of a cancel, and when and how the execution stopped.": "取消の要求と、停止した時刻・方法です。",
    "List Executions": "execution を一覧する",
    "The executions changed last come first. Runs and jobs are among them.": (
        "execution を最近変化した順に返します。run と job も含みます。"
    ),
    "Those that were archived instead of the others.": "アーカイブ済みのものだけを返します。",
    "List Events": "event を一覧する",
    "The events of an execution, in order.": "execution の event を順に返します。",
    "The `nextCursor` of the page before, or the id of an event.": "前のページの `nextCursor`、または event の id。",
    "Of a page; a stream has no limit.": "1 ページの上限。ストリームには上限がありません。",
    "JSON, or with `Accept: text/event-stream` each event as it is stored, with its type as the event's name and an "
    "`id` to resume from; comments are heartbeats, and the stream ends when the execution has.": (
        "JSON です。`Accept: text/event-stream` の場合は、保存された event を順次送ります（type が event 名、`id` で再開可能）。"
        "コメントは heartbeat です。execution の終了とともにストリームも終わります。"
    ),
    "The execution has ended and the caller has seen its end: do not connect again.": (
        "execution は終了し、呼び出し元は受信済みです。再接続は不要です。"
    ),
    "A page of events in order; `nextCursor` continues after them, and is null on the last page.": (
        "順に並んだ event の 1 ページです。続きは `nextCursor` で読みます（最後のページでは null）。"
    ),
    "An event, its time and the command that caused it.": "event と、その時刻、原因となったコマンドです。",
    # Claims and waits
    "Take the next READY node": "次の READY の node を取得する",
    "Take the next READY node of these graphs, of the oldest execution first, with a lease.": (
        "これらの graph の READY の node を、古い execution から順に lease 付きで取得します。"
    ),
    "`progress` renews the lease. After its end the next claim takes the node, with `attempt + 1`. A claim that is "
    "repeated with the same key returns the same node.": (
        "`progress` で lease を更新します。lease が切れると、次の claim が `attempt + 1` で取得します。"
        "同じ key で claim を繰り返すと、同じ node を返します。"
    ),
    "No node was ready within the time: claim again.": "時間内に実行可能な node がありませんでした。再度 claim してください。",
    "The graphs to claim a node of, and its holder.": "node を取得する graph と、担当です。",
    "Wait this long for a node.": "node を待つ時間。",
    "The claimed node. Its lease ends at `leaseUntil` unless `progress` renews it.": (
        "取得した node です。`progress` で更新しなければ、lease は `leaseUntil` に切れます。"
    ),
    "The outputs of the nodes before it that were not skipped.": "先行する node の output（skip された node を除く）。",
    "An edge that is followed on some choices only.": "特定の選択のときだけ進む edge です。",
    "Which choice of the prompt the answer named.": "回答が選んだ、prompt の選択肢。",
    "`skipped`: no edge that was followed leads to it.": "`skipped`: 進んだ edge のどれもこの node に至りませんでした。",
    "List Waits": "判断待ちの node を一覧する",
    "The nodes that wait to be resumed, with prompt and key, the longest waiting first.": (
        "判断待ちの node を、prompt と key とともに、待ち時間の長い順に返します。"
    ),
    "`POST /executions/{{executionId}}/nodes/{{nodeId}}/resume` with the key resumes one; `…/fail` fails it.": (
        "key を付けた `POST /executions/{{executionId}}/nodes/{{nodeId}}/resume` で再開し、`…/fail` で失敗にします。"
    ),
    "A page, the longest waiting first.": "1 ページです。待ち時間の長い順です。",
    "A node that waits to be resumed.": "判断待ちの node です。",
    # Graphs
    "Put Graph": "graph を登録する",
    "Store a graph under this name. A change is a new version; an equal graph changes nothing.": (
        "この名前で graph を登録します。変更すると新しい version になり、同じ内容なら変わりません。"
    ),
    "Executions keep the version that they were created from.": "execution は、作成時の version を使い続けます。",
    "The graph's name.": "graph の名前。",
    "Reject (409) unless this is the current version; 0: unless there is no such graph.": (
        "現在の version がこれと異なれば拒否します（409）。0 は graph がない場合だけ受け付けます。"
    ),
    'The current version in quotes: `"3"`.': '引用符付きの現在の version。例: `"3"`。',
    "A new graph": "新しい graph",
    "A graph.": "graph です。",
    "For the worker of the node.": "node の担当に渡す値。",
    "Default: id.": "既定は id。",
    "Any JSON, for the person who answers. The answer must be one of its `choices`, if any.": (
        "回答する人に見せる任意の JSON。`choices` があれば、回答はそのいずれかです。"
    ),
    "Followed only if the answer that `from` waited for chose one of these. Absent: always.": (
        "`from` が待った回答がこのいずれかを選んだときだけ進みます。省略時は常に進みます。"
    ),
    "A text; or a number, true or false.": "文字列、または数値、true、false。",
    "From, to.": "始点、終点。",
    "Get Graph": "graph を取得する",
    "A graph in its current version.": "現在の version の graph です。",
    "ETags of known versions.": "既知の version の ETag。",
    "The version in If-None-Match is current": "If-None-Match の version が最新です",
    "List Graphs": "graph を一覧する",
    "Stored graphs and announced flows, by id.": "登録済みの graph と公表されている flow を id 順に返します。",
    "Only graphs whose id has this prefix.": "id がこの文字列で始まる graph だけ。",
    "One page, by id; the last one has no `nextCursor`.": "id 順の 1 ページです。最後のページに `nextCursor` はありません。",
    "Of a task: for the worker of the node.": "task の場合: node の担当に渡す値。",
    "Of a task: the largest number of attempts.": "task の場合: attempt の上限。",
    "Of a wait node: the key that resumes it.": "wait node の場合: 再開する key。",
    "Of a wait node: for the person who answers.": "wait node の場合: 回答する人に見せる内容。",
    "Of a wait node: the longest wait.": "wait node の場合: 待機時間の上限。",
    "A node with all defaults filled in.": "すべての既定値を補った node です。",
    "Counts the changes from 1; null for a flow.": "1 から始まる変更の番号。flow では null。",
    "RFC 3339, UTC; null for a flow.": "RFC 3339、UTC。flow では null。",
    "The author, with access control.": "登録した呼び出し元（認証が有効な場合）。",
    "Stored, or announced by workers as a flow.": "登録済みの graph、または worker が公表している flow です。",
    "Of a flow: the tags of the workers that serve it.": "flow の場合: 処理できる worker の tag。",
    "Whether it is the first version of that name.": "その名前の最初の version かどうか。",
    "The stored graph after a put.": "登録後の graph です。",
    "A graph in a list, with the numbers of its nodes and edges.": "一覧の graph です。node と edge の数を含みます。",
    "The graph that the execution was created with, or the tasks of its flow in the version that ran.": (
        "execution の作成時の graph、または実行された版の flow の task です。"
    ),
}
