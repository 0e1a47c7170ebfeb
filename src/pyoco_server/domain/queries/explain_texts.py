"""Reasons → sentences in English and Japanese: the cause and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyoco_server.domain.queries.explain import Reason
from pyoco_server.errors import EventsLost, catalogue

_NOTHING = ("Nothing to do.", "対応は不要です。")
_START_ONE = (
    # The command comes last, so that no full stop is copied with it.
    "Tags served now: {served_tags}. Start one: pyoco-worker --tags {tag} --flow-resolver flows.py:resolve",
    "稼働中の tag: {served_tags}。"
    "worker を起動してください: pyoco-worker --tags {tag} --flow-resolver flows.py:resolve",
)
_TAKE_OVER = (
    "A worker that serves {tag} and is free takes the run over within {takeover_sec} s; start one if there is none.",
    "tag {tag} の空き worker が {takeover_sec} 秒以内に引き継ぎます。いない場合は起動してください。",
)
_SUBMIT_AGAIN = ("Submit it again if it is still wanted.", "必要であれば再投入してください。")

# By code: the sentence and the hint, each in English and Japanese; names in braces are facts of the reason.
TEXTS: Mapping[str, tuple[str, str, str, str]] = {
    "not_started": (
        "It was created {waiting_sec} s ago and has not been started.",
        "作成から {waiting_sec} 秒経過していますが、まだ start されていません。",
        "Start it: POST /executions/{execution_id}/start",
        "start してください: POST /executions/{execution_id}/start",
    ),
    "nodes_wait_for_somebody": (
        "{count} node(s) wait to be resumed: {nodes}.",
        "{count} 個の node が応答を待っています: {nodes}。",
        "See what they ask and answer: pyoco-client waits, then pyoco-client approve {execution_id}",
        "内容を確認して応答してください: pyoco-client waits、続いて pyoco-client approve {execution_id}",
    ),
    "nodes_wait_to_be_taken": (
        "{count} node(s) are ready and have not been claimed: {nodes}.",
        "{count} 個の node が実行可能ですが、担当がいません: {nodes}。",
        "Start a program that claims nodes of {graph_id} (POST /executions:claim); examples/ has one.",
        "{graph_id} の node を取得するプログラムを起動してください（POST /executions:claim、例は examples/）。",
    ),
    "nodes_wait_their_turn": (
        "{count} node(s) are ready and not yet claimed: {nodes}.",
        "{count} 個の node が実行可能で、取得待ちです: {nodes}。",
        "Active holders can claim them next; for more throughput, start more programs that claim nodes of {graph_id}.",
        "作業中の担当が続けて取得できます。速めるには {graph_id} の node を取得するプログラムを追加してください。",
    ),
    "nodes_of_silent_holders": (
        "{count} node(s) belong to holders whose lease has expired: {nodes} of {holders}.",
        "{count} 個の node は担当の lease が切れています: {nodes}（担当: {holders}）。",
        "The next claim for {graph_id} takes them over.",
        "{graph_id} の次の claim が引き継ぎます。",
    ),
    "nodes_are_worked_on": (
        "{count} node(s) are being worked on: {nodes}, by {holders}.",
        "{count} 個の node が作業中です: {nodes}（担当: {holders}）。",
        *_NOTHING,
    ),
    "nodes_were_skipped": (
        "{count} node(s) were skipped, because no edge to them was followed: {nodes} (answers: {choices}).",
        "{count} 個の node は、つながる edge が選択されなかったため実行しません: {nodes}（回答: {choices}）。",
        "See who answered: pyoco-client events {execution_id}",
        "回答した人を確認できます: pyoco-client events {execution_id}",
    ),
    "waits_for_its_end": (
        "No node is at work, and nothing ends it by itself: no graph or flow was called {graph_id}, so it is open.",
        "作業中の node はなく、自動では終了しません（{graph_id} という graph・flow がなかったため、open graph です）。",
        "Start a node, or end it: POST /executions/{execution_id}/complete. If a graph was meant: pyoco-client graphs",
        "node を開始するか、終了させてください: POST /executions/{execution_id}/complete。"
        "登録済みの graph を使う場合は pyoco-client graphs で確認してください。",
    ),
    "no_worker_for_tag": ("No worker serves the tag {tag}.", "tag {tag} を処理する worker がいません。", *_START_ONE),
    "workers_for_tag_are_gone": (
        "No worker serves the tag {tag} any more: the last of {workers}, {last_worker}, is {last_state} and was seen "
        "{last_seen_sec} s ago.",
        "tag {tag} を処理する worker がいなくなりました。最後の {last_worker}（全 {workers} 台）は {last_state} で、"
        "最終応答は {last_seen_sec} 秒前です。",
        *_START_ONE,
    ),
    "similar_tag": (
        "The tag {similar} is served, and is spelled much like {tag}.",
        "よく似た tag {similar} は稼働中です（指定: {tag}）。",
        "If {tag} is misspelled, cancel this run and submit it with the tag {similar}.",
        "誤記であれば、この run を取り消し、tag {similar} で再投入してください。",
    ),
    "queue_at_its_limit": (
        "The queue has {in_work} jobs of the tag {tag} handed out, and hands out no more than {limit} at a time.",
        "tag {tag} の配信中ジョブが {in_work} 件で、同時配信の上限 {limit} に達しています。",
        "Wait for some to end, or raise MaxAckPending of the tag's consumer (PYOCO_CONSUMER_MAX_ACK_PENDING).",
        "終了を待つか、consumer の MaxAckPending（新規は PYOCO_CONSUMER_MAX_ACK_PENDING）を上げてください。",
    ),
    "all_slots_busy": (
        "All {slots} slots of {workers} worker(s) for the tag {tag} are busy; {ahead} run(s) are ahead of this one.",
        "tag {tag} の worker {workers} 台の全 {slots} スロットが使用中です。先行する run は {ahead} 件です。",
        "Wait, or start more: pyoco-worker --tags {tag} --concurrency N.",
        "待つか、worker を追加してください: pyoco-worker --tags {tag} --concurrency N。",
    ),
    "about_to_start": (
        "{workers} worker(s) serve the tag {tag} and have room ({slots_busy} of {slots} slots busy); {ahead} run(s) "
        "are ahead of this one.",
        "tag {tag} の worker {workers} 台に空きがあります（{slots} 中 {slots_busy} 使用中）。"
        "先行する run は {ahead} 件です。",
        "Check again in a moment.",
        "少し待って再確認してください。",
    ),
    "waits_although_free": (
        "A worker for the tag {tag} is free, but the run has waited for {waiting_sec} s.",
        "tag {tag} の worker に空きがありますが、run は {waiting_sec} 秒待っています。",
        "The gateway queues it again by itself after {requeue_after_sec} s; the log of the workers may say why.",
        "{requeue_after_sec} 秒経過後に Gateway が自動で再投入します。worker のログも確認してください。",
    ),
    "flow_not_announced": (
        "No worker of the tag {tag} announces a flow named {flow_name}; one may serve it all the same.",
        "tag {tag} の worker はいずれも flow {flow_name} を公表していません（公表せずに処理できる場合もあります）。",
        "Announced, the most similar first: {announced_flows}. If {flow_name} is misspelled, cancel this run.",
        "公表されている flow（類似順）: {announced_flows}。誤記であれば、この run を取り消してください。",
    ),
    "running": (
        "Running on {worker_id} for {running_sec} s; its last heartbeat is {heartbeat_sec} s old.",
        "{worker_id} で {running_sec} 秒間実行中です。最終 heartbeat は {heartbeat_sec} 秒前です。",
        *_NOTHING,
    ),
    "run_is_stale": (
        "The worker {worker_id} is alive, but the run has sent no heartbeat for {heartbeat_sec} s.",
        "worker {worker_id} は稼働中ですが、run の heartbeat が {heartbeat_sec} 秒途絶えています。",
        "Check the worker's log and load; cancel the run if it hangs.",
        "worker のログと負荷を確認し、停止している場合は run を取り消してください。",
    ),
    "worker_silent": (
        "Its worker {worker_id} has been silent for {silent_sec} s.",
        "worker {worker_id} からの応答が {silent_sec} 秒ありません。",
        *_TAKE_OVER,
    ),
    "worker_stopped": (
        "Its worker {worker_id} has stopped ({stop_reason}) and has returned the run.",
        "worker {worker_id} は停止し（{stop_reason}）、run は返却されました。",
        *_TAKE_OVER,
    ),
    "worker_restarted_or_unknown": (
        "The worker {worker_id} that had it is gone: restarted since, or no longer registered.",
        "実行していた worker {worker_id} は、再起動されたか登録がありません。",
        *_TAKE_OVER,
    ),
    "tried_again": (
        "This is attempt {attempt}: {lost} earlier attempt(s) lost their worker.",
        "{attempt} 回目の試行です。これまでに {lost} 回、worker が失われました。",
        "It fails after {max_attempts}. Check the worker's log for the cause (memory, signals).",
        "{max_attempts} 回で打ち切られます。flow が worker を落としていないか、ログを確認してください。",
    ),
    "cancel_on_its_way": (
        "A cancel was requested {requested_sec} s ago and is being delivered to the worker {worker_id}.",
        "取消が {requested_sec} 秒前に要求され、worker {worker_id} に通知中です。",
        "Nothing to do: it ends in {at_the_latest_sec} s at the latest.",
        "対応は不要です。遅くとも {at_the_latest_sec} 秒後に終了します。",
    ),
    "cancel_delivered": (
        "The cancel has reached the worker {worker_id}; the flow has {grace_left_sec} s more to stop by itself, then "
        "its process is killed.",
        "取消は worker {worker_id} に届きました。猶予はあと {grace_left_sec} 秒で、その後プロセスを強制終了します。",
        "Nothing to do. Tasks that check ctx.is_cancelled stop sooner.",
        "対応は不要です。ctx.is_cancelled を確認する task はより早く停止します。",
    ),
    "cancel_waits_for_holders": (
        "A cancel was requested {requested_sec} s ago; {count} node(s) are still held: {nodes}, by {holders}.",
        "取消は {requested_sec} 秒前に要求されました。{count} 個の node がまだ作業中です: {nodes}（担当: {holders}）。",
        "Holders that stop report success or fail; in {grace_left_sec} s the run ends without waiting for the others.",
        "担当は停止後に success または fail を送ってください。あと {grace_left_sec} 秒で待たずに終了します。",
    ),
    "cancel_without_worker": (
        "A cancel was requested {requested_sec} s ago, but the worker {worker_id} does not respond.",
        "取消が {requested_sec} 秒前に要求されましたが、worker {worker_id} が応答しません。",
        "Nothing to do: the gateway ends the run in {at_the_latest_sec} s at the latest.",
        "対応は不要です。遅くとも {at_the_latest_sec} 秒後に Gateway が終了させます。",
    ),
    "flow_not_found": (
        "The worker {worker_id} has no flow named {flow_name}.",
        "worker {worker_id} に flow {flow_name} がありません。",
        "Check flow_name, and that every worker of the tag {tag} serves it.",
        "flow_name と、tag {tag} の全 worker がその flow を持つことを確認してください。",
    ),
    "task_failed": (
        "The task {task} failed: {error}",
        "task {task} が失敗しました: {error}",
        "See its traceback: pyoco-client tasks {run_id}, or GET /runs/{run_id}/tasks.",
        "traceback は pyoco-client tasks {run_id} か GET /runs/{run_id}/tasks で確認できます。",
    ),
    "node_failed": (
        "The node {task} failed: {error}",
        "node {task} が失敗しました: {error}",
        "See who did what: pyoco-client events {run_id}",
        "経緯を確認してください: pyoco-client events {run_id}",
    ),
    "timed_out": (
        "The run was stopped ({how}) because it took longer than its timeout_sec of {limit_sec} s; running: {tasks}.",
        "timeout_sec の {limit_sec} 秒を超えたため停止しました（{how}）。実行中: {tasks}",
        "Submit it with a longer timeout_sec, or make the task that was running faster.",
        "timeout_sec を延ばして再投入するか、実行中だった task を見直してください。",
    ),
    "run_failed": (
        "The run failed: {error}",
        "run が失敗しました: {error}",
        "Correct the cause, then submit it again.",
        "原因を修正し、再投入してください。",
    ),
    "cancelled_before_start": (
        "Cancelled by {by} before a worker started it.",
        "worker が開始する前に {by} が取り消しました。",
        *_SUBMIT_AGAIN,
    ),
    "cancelled_idle": (
        "Cancelled by {by} while no holder was working on it.",
        "作業中の担当がいない状態で {by} が取り消しました。",
        *_SUBMIT_AGAIN,
    ),
    "cancelled_cooperative": (
        "Cancelled by {by}; the flow stopped by itself after {took_sec} s.",
        "{by} が取り消し、flow は {took_sec} 秒後に自ら停止しました。",
        *_SUBMIT_AGAIN,
    ),
    "cancelled_killed": (
        "Cancelled by {by}; the flow did not stop by itself, and its process was killed after {took_sec} s.",
        "{by} が取り消しましたが、flow が停止しなかったため {took_sec} 秒後にプロセスを強制終了しました。",
        "Check ctx.is_cancelled in long tasks to stop sooner and cleanly.",
        "長い task では ctx.is_cancelled を確認してください。",
    ),
    "cancelled_abandoned": (
        "Cancelled by {by}; the flow did not stop within its grace and was left behind in its worker {worker_id}.",
        "{by} が取り消しましたが、flow が猶予内に停止せず、worker {worker_id} 内に残されました。",
        "Restart that worker if the flow still does work there; check ctx.is_cancelled in long tasks.",
        "処理が続いている場合は worker を再起動してください。長い task では ctx.is_cancelled を確認してください。",
    ),
    "cancelled_unconfirmed": (
        "Cancelled by {by}; the worker {worker_id} never confirmed it, so the gateway ended the run.",
        "{by} が取り消しました。worker {worker_id} から確認がなかったため、Gateway が終了させました。",
        "The worker was probably lost; if it is alive, make sure that the flow has stopped there.",
        "worker が失われた可能性があります。稼働中であれば flow が停止したか確認してください。",
    ),
    "cancelled_batches_stopping": (
        "Cancelled by {by}; the engine of its batches did not answer in time. The gateway keeps trying to stop them.",
        "{by} が取り消しましたが、batch の engine が時間内に応答しませんでした。Gateway が停止を試み続けています。",
        "See whether the engine (Airflow) is reachable; remove the label pdca:stopping to leave its batches alone.",
        "engine（Airflow）への接続を確認してください。停止が不要なら label pdca:stopping を外してください。",
    ),
    "cancelled_batches_stopped": (
        "Cancelled by {by}; the engine of its batches did not answer in time, and they were stopped later.",
        "{by} が取り消しました。batch の engine が時間内に応答せず、batch は後から停止されました。",
        *_SUBMIT_AGAIN,
    ),
    "cancelled_submit_failed": (
        "Its submit could not be completed and was undone.",
        "投入を完了できなかったため、取り下げられました。",
        *_SUBMIT_AGAIN,
    ),
    "events_lost": (
        "The broker has lost events of this run: what is shown is the last state that was recorded.",
        "この run のイベントが NATS から失われています。表示は最後に記録された状態です。",
        EventsLost.hint,
        EventsLost.hint_ja,
    ),
    "completed": (
        "Completed after {ran_sec} s; it waited {waited_sec} s for a worker.",
        "{ran_sec} 秒で完了しました（worker 待ち {waited_sec} 秒）。",
        *_NOTHING,
    ),
}

_UNKNOWN = {"en": "(unknown)", "ja": "（不明）"}
_UNNAMED = {"en": "an unnamed caller", "ja": "匿名の利用者"}
_NONE = {"en": "none", "ja": "なし"}
_ERRORS = {error.err_id: error for error in reversed(catalogue())}


def render_reason(reason: Reason, language: str) -> tuple[str, str]:
    """The sentence and the hint of a reason; catalogue errors have their own hint."""
    message, message_ja, hint, hint_ja = TEXTS[reason.code]
    if reason.code == "run_failed" and reason.facts.get("err_id") in _ERRORS:
        error = _ERRORS[reason.facts["err_id"]]
        hint, hint_ja = error.hint, error.hint_ja
    shown = {name: _shown(value, language) for name, value in reason.facts.items()}
    if reason.facts.get("by", "") is None:
        shown["by"] = _UNNAMED[language]
    texts = (message_ja, hint_ja) if language == "ja" else (message, hint)
    return texts[0].format_map(shown), texts[1].format_map(shown)


def _shown(value: Any, language: str) -> str:
    if value is None:
        return _UNKNOWN[language]
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or _NONE[language]
    return str(value)
