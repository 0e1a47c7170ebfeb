"""Executions and their nodes, idempotency, dead letters."""

from __future__ import annotations

TEXTS = {
    # Rejected commands
    "there is no execution {execution_id}": "execution {execution_id} はありません",
    "there is no such execution": "execution が見つかりません",
    "the execution is finished": "execution は終了しています",
    "the execution is not finished": "execution はまだ終了していません",
    "the execution is not started": "execution はまだ start されていません",
    "the execution is {status}": "execution は {status} です",
    "a cancel was requested": "取消が要求されています",
    "no cancel was requested": "取消は要求されていません",
    "a worker may still be working on it": "worker がまだ実行している可能性があります",
    "a worker runs all of it; it can only be cancelled": "worker が全体を実行しています。可能な操作は取消だけです",
    "its nodes are taken one by one; no worker runs all of it": (
        "node は 1 つずつ取得されます。全体を実行する worker はありません"
    ),
    "another attempt has taken over": "別の attempt が引き継いでいます",
    "the graph decides when it is complete": "完了は graph が決めます",
    "the graph cannot be run": "この graph は実行できません",
    "there is no such node in the graph": "graph にこの node はありません",
    "the node is not ready yet": "node はまだ実行できません",
    "the node is not running": "node は実行中ではありません",
    "the node is not waiting": "node は待機中ではありません",
    "the node is finished": "node は終了しています",
    "another worker holds the node": "別の担当が node を作業中です",
    "it is not the next attempt of the node": "node の次の attempt ではありません",
    "the node has no attempts left": "node の試行回数が残っていません",
    "the resume key does not fit": "resumeKey が一致しません",
    "the answer must be one of the choices: {choices}": "回答は次の選択肢のいずれかにしてください: {choices}",
    "the answer is not one of the choices": "回答が選択肢のいずれでもありません",
    "a value is out of range": "範囲外の値があります",
    "an execution has at most {count} nodes": "execution の node は {count} 個までです",
    "node ids, wait keys and choices that a graph does not name have at most {size} bytes together": (
        "graph にない node id、wait key、選択肢は、合わせて {size} バイトまでです"
    ),
    "an execution has at most {count} tags": "execution の tag は {count} 個までです",
    "{command} rejected because execution is cancel-requested": (
        "execution の取消が要求されているため、{command} は受け付けられません"
    ),
    "{command} rejected because {reason}": "{command} は受け付けられません: {reason:ja}",
    "attempt {attempt} belongs to another worker instance": "attempt {attempt} は別の worker のものです",
    "attempt {attempt} is not the current one ({current})": (
        "attempt {attempt} は現在の attempt（{current}）ではありません"
    ),
    "attempt {attempt} of the node is not the current one ({current})": (
        "node の attempt {attempt} は現在の attempt（{current}）ではありません"
    ),
    "attempt {attempt} of the node has ended {status}": "node の attempt {attempt} は {status} で終了しています",
    "attempt counts from 1": "attempt は 1 から始まります",
    "the next attempt of the node is {attempt}": "node の次の attempt は {attempt} です",
    "the node was begun {count} times, which is its limit": "node は上限の {count} 回開始されています",
    "only a finished execution can be archived; cancel it first": (
        "アーカイブできるのは終了した execution だけです。先に取り消してください"
    ),
    "progress must be from 0 to 100": "progress は 0～100 にしてください",
    "the node is {status}, not WAITING": "node は {status} で、WAITING ではありません",
    "the node is {status}, not RUNNING": "node は {status} で、RUNNING ではありません",
    "the node is WAITING: resume it": "node は WAITING です。resume してください",
    "the node is {status}": "node は {status} です",
    "a node id has 1 to {count} characters": "node id は 1～{count} 文字です",
    # Their input
    "nodeId must be 1 to 128 printable characters without a slash": (
        "nodeId は、スラッシュを含まない 1～128 文字の印字可能文字にしてください"
    ),
    "graphId must be printable text": "graphId は印字可能な文字列にしてください",
    "cursor: it is not the nextCursor of a page of waits; leave it out to begin": (
        "cursor: 応答待ち一覧の nextCursor ではありません。最初から読むには省略してください"
    ),
    "cursor: it is not the nextCursor of a page of events; leave it out to begin": (
        "cursor: event 一覧の nextCursor ではありません。最初から読むには省略してください"
    ),
    "at: the run began with version {version}": "at: run は version {version} から始まります",
    "at: the execution began with version {version}": "at: execution は version {version} から始まります",
    "tag: {graph_id} is a graph, whose nodes no worker of a tag takes": (
        "tag: {graph_id} は graph です。graph の node は tag の worker には割り当てられません"
    ),
    # Submits and idempotency
    "run {run_id} could not be taken back: it may have been left behind, or run all the same": (
        "run {run_id} を取り下げられませんでした。残っているか、実行される可能性があります"
    ),
    "nats did not answer; run {run_id} may have been stored all the same": (
        "NATS が応答しませんでした。run {run_id} は保存されている可能性があります"
    ),
    "an idempotency key has 1 to {count} printable ASCII characters and no spaces at its ends": (
        "idempotency key は 1～{count} 文字の印字可能な ASCII で、前後に空白を含められません"
    ),
    "more than one idempotency key is given, and they are not the same": (
        "異なる idempotency key が複数指定されています"
    ),
    "two keys of an object are the same text (by Unicode's form NFC); one would be lost": (
        "オブジェクトのキーが重複しています（Unicode の NFC で同じ文字列です）"
    ),
    "NaN and infinities are not JSON": "NaN と無限大は JSON では表せません",
    "this cannot be written as JSON: {error}": "JSON で表せません: {error}",
    # Dead letters
    "a dead letter of the reason {reason} has no job that could be run again; fix its producer, or submit the run "
    "anew": (
        "理由が {reason} の dead letter には再実行できる job がありません。"
        "送信元を修正するか、run を新しく投入してください"
    ),
    "the data of run {run_id} is gone (retention, or it was never a run of this server); submit it anew with its flow "
    "and params": (
        "run {run_id} のデータはありません（保持期間が過ぎたか、このサーバーの run ではありません）。"
        "flow と params を指定して新しく投入してください"
    ),
    "the dead letter names no run of this server; submit it anew": (
        "dead letter の run はこのサーバーのものではありません。新しく投入してください"
    ),
    "cursor: it is not the next_cursor of a page of dead letters": (
        "cursor: dead letter 一覧の next_cursor ではありません"
    ),
    "{text} is not the number of a letter": "{text} は dead letter の番号ではありません",
}
