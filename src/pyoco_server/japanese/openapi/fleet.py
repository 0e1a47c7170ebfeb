"""Workers, wheels, dead letters, metrics, health."""

from __future__ import annotations

TEXTS = {
    "Only flows that are served under this tag.": "この tag で提供されている flow だけ。",
    "List Flows": ("flow を一覧する"),
    "The flows that running workers announce, by name.": ("稼働中の worker が公開する flow を名前順に返します。"),
    "Get Flow": ("flow を取得する"),
    "A flow with its graph, parameters and figures.": ("flow の graph、パラメーター、最近の数値です。"),
    "Its name, percent-encoded; a slash in it may stand as it is.": (
        "flow の名前（パーセントエンコード）。スラッシュはそのままで構いません。"
    ),
    "A run and its status.": "run とその状態です。",
    "The last 10 of them, the one that changed last first.": "そのうち最後に変化した 10 件（新しい順）。",
    "A parameter of a flow.": ("flow のパラメーターです。"),
    "Figures about the runs that changed last, of those that the caller may see.": (
        "最近変化した run の数値です（呼び出し元に見えるもの）。"
    ),
    "How many count: 100 at most.": ("対象の件数。最大 100。"),
    "Of the completed ones, from start to end.": ("完了した run の開始から終了まで。"),
    "A flow in a list. Where its workers differ, that of the worker that started last.": (
        "一覧での flow です。worker によって異なる場合は、最後に起動した worker のものです。"
    ),
    "The tags under which it is served.": ("提供されている tag。"),
    "How many running workers announce it.": ("公開している稼働中の worker の数。"),
    "Whether it may read further parameters.": ("ほかのパラメーターを読む可能性があるか。"),
    "One announcement of the flow. Without nodes its graph is unknown; a flow with loops or branches has no edges.": (
        "flow の一つの版です。node がなければ graph は不明です。ループや分岐のある flow には edge がありません。"
    ),
    "A flow, with every different announcement of it, the newest first.": ("flow と、そのすべての版です（新しい順）。"),
    "A page, by name. The last page, and only that one, has no `next_cursor`.": (
        "名前順の 1 ページです。`next_cursor` がないのは最後のページだけです。"
    ),
    "Only flows whose name has this prefix.": ("この接頭辞で始まる名前の flow だけ。"),
    "The `next_cursor` of the page before, same filters.": ("前のページの `next_cursor`（フィルターは同じ）。"),
    # Workers
    "List Workers": "worker を一覧する",
    "Active workers by name, then lost, then stopped ones, the latest seen first. `X-Total-Count` has their number.": (
        "稼働中の worker を名前順に、続いて応答のないもの、停止したものを最近の順に返します。件数は `X-Total-Count` です。"
    ),
    "`active`: RUNNING and IDLE.": "`active`: RUNNING と IDLE。",
    "Only these; overrides `scope`.": "この状態だけ。`scope` より優先します。",
    "How many there are, whatever the limit.": "上限によらない全件数。",
    "Patch Worker": "worker を変更する",
    "Hide a worker from the lists, or show it again.": "worker を一覧で非表示にし、または再び表示します。",
    "The worker's name.": "worker の名前。",
    "The change of a worker.": "worker の変更内容です。",
    "Hide it from the lists; it continues to work.": "一覧で非表示にします。動作は続きます。",
    "The stored change.": "保存された変更です。",
    "A worker: its last record and the resulting state. More fields may be added at any time.": (
        "worker の最後の記録と、そこから得られる状態です。項目は追加されることがあります。"
    ),
    "One life of the worker: new with each start.": "worker の起動ごとに新しくなる id。",
    "The time since its last heartbeat, by this gateway's clock.": "最後の heartbeat からの時間（この Gateway の時計）。",
    "The oldest of its runs.": "実行中の run のうち最も古いもの。",
    "Its runs, as far as the caller may see them.": "実行中の run（呼び出し元に見えるもの）。",
    "What a runner of it serves one after the other.": "この worker の runner が順に処理する run の範囲。",
    "The user that its tasks run as.": "task を実行するユーザー。",
    "The flows that it announces; it may serve others.": "公表している flow。ほかの flow も処理できる場合があります。",
    "The version of the flows' sources that it serves; null when unknown.": (
        "処理に使う flow のソースのバージョン。不明なら null。"
    ),
    "The sources of a worker's flows.": "worker の flow のソースです。",
    "A hash of the sources that every new run gets.": "新しい run が使うソースのハッシュ。",
    "Whether saved files are loaded while it runs (`PYOCO_CODE_RELOAD`).": (
        "実行中に保存されたファイルを読み込むか（`PYOCO_CODE_RELOAD`）。"
    ),
    "The files on disk are another version, which is not served.": (
        "ディスク上のファイルは別のバージョンで、処理には使われていません。"
    ),
    "Why the saved files could not be loaded.": "保存されたファイルを読み込めなかった理由。",
    # Wheels
    "List Wheels": "wheel を一覧する",
    "The registered wheels of the caller's tenant and the shared ones, by name; all for administrators.": (
        "呼び出し元の tenant の wheel と共有の wheel を名前順に返します。管理者には全件を返します。"
    ),
    "Upload Wheel": "wheel を登録する",
    "Register a wheel for the caller's tenant. Its version must be newer than the tenant's other ones (else 409).": (
        "呼び出し元の tenant の wheel を登録します。その tenant の登録済みより新しいバージョンが必要です（そうでなければ 409）。"
    ),
    "The wheel, at most PYOCO_WHEEL_MAX_BYTES; its version newer than every one of its owner.": (
        "wheel（PYOCO_WHEEL_MAX_BYTES 以下、同じ所有者の登録済みより新しいバージョン）。"
    ),
    "Accepted for older clients; the rule for versions comes first.": (
        "古いクライアントとの互換用です。バージョンの規則が優先されます。"
    ),
    "Which workers it is for, joined by commas; none: for all.": "対象の worker の tag。カンマ区切り。省略時はすべて。",
    "A wheel as a file whose name says package and version; both must be those of its METADATA.": (
        "wheel のファイルです。名前のパッケージとバージョンは METADATA と一致させてください。"
    ),
    "List Wheel History": "wheel の履歴を一覧する",
    "The changes of wheels of the last PYOCO_WHEEL_HISTORY_TTL_SEC, the newest first.": (
        "PYOCO_WHEEL_HISTORY_TTL_SEC の間の wheel の変更を新しい順に返します。"
    ),
    "Download Wheel": "wheel をダウンロードする",
    "The bytes of the tenant's wheel, else of the shared one. A connection that ends early is a failure.": (
        "tenant の wheel、なければ共有の wheel の内容です。途中で接続が終われば失敗です。"
    ),
    "The file name of a wheel.": "wheel のファイル名。",
    "The bytes of the wheel. Its SHA-256 is in ETag (hex) and Repr-Digest (base64).": (
        "wheel の内容です。SHA-256 は ETag（16 進）と Repr-Digest（base64）にあります。"
    ),
    "Delete Wheel": "wheel を削除する",
    "Remove a wheel of the caller's tenant; a shared one (`shared`) by administrators. Its version is free again.": (
        "呼び出し元の tenant の wheel を削除します。共有の wheel（`shared`）は管理者が削除します。同じバージョンを再び登録できます。"
    ),
    "For runs of all tenants, not only of the caller's. Needs the scope admin.": (
        "呼び出し元だけでなく全 tenant の run で使います。scope admin が必要です。"
    ),
    "The wheel that all tenants share.": "全 tenant で共有の wheel。",
    "That of this tenant. For administrators.": "この tenant の wheel（管理者のみ）。",
    "Whose runs use it; null: shared by all tenants.": "この wheel を使う run の tenant。null は全 tenant で共有。",
    "Whose wheel it is; null: shared by all tenants.": "wheel の所有者。null は全 tenant で共有。",
    "The object store that holds it.": "保存先の object store。",
    "One upload: new with each.": "登録ごとに新しくなる id。",
    "Workers compare it before they install.": "worker がインストール前に照合します。",
    "A registered wheel. Without tags it is for every worker.": "登録済みの wheel です。tag がなければ全 worker が対象です。",
    "The wheel is deleted.": "wheel は削除されました。",
    "A change of a wheel, its source and its actor. More fields may be added at any time.": (
        "wheel の変更と、その経路・実行者です。項目は追加されることがあります。"
    ),
    # Dead letters
    "List Dead Letters": "dead letter を一覧する",
    "The dead letters, newest first; of the runs that the caller may see.": (
        "dead letter を新しい順に返します（呼び出し元に見える run のもの）。"
    ),
    "Only letters of this reason.": "この理由のものだけ。",
    "Only jobs with this routing tag.": "このルーティング tag の job だけ。",
    "Only jobs of this flow.": "この flow の job だけ。",
    "Only this many characters of each `error`.": "各 `error` の先頭からこの文字数だけ。",
    "Replay Dead Letter": "dead letter を再実行する",
    "Run the job again: a new run with the same flow, params, tag, labels and YAML. The old run stays as it is.": (
        "job を、同じ flow・params・tag・ラベル・YAML の新しい run として再実行します。元の run は変わりません。"
    ),
    "The letter's number.": "dead letter の番号。",
    "One page, newest first; it may be short or even empty. Only the last one has no `next_cursor`.": (
        "新しい順の 1 ページです。短いことも空のこともあります。`next_cursor` がないのは最後のページだけです。"
    ),
    "Its number, for a replay.": "再実行に使う番号。",
    "`invalid_job`, `flow_not_found`, `execution_error`, `max_deliver`.": (
        "`invalid_job`、`flow_not_found`、`execution_error`、`max_deliver` のいずれか。"
    ),
    "A failed job. Unknown fields are null.": "失敗した job です。不明な項目は null です。",
    "The dead letter and its run.": "dead letter とその run です。",
    "The new run. Its snapshot has the old one's id as `replay_of`.": (
        "新しい run です。スナップショットの `replay_of` に元の run の id があります。"
    ),
    # Metrics and health
    "Get Metrics": "メトリクスを取得する",
    "Metrics for Prometheus. A caller of one tenant gets those of that tenant's runs.": (
        "Prometheus 用のメトリクスです。特定の tenant の呼び出し元には、その tenant の run のものを返します。"
    ),
    "Metrics in the text format of Prometheus.": "Prometheus のテキスト形式のメトリクス。",
    "The broker does not answer, or the index is being built.": "broker が応答しないか、索引を作成中です。",
    "Health": "稼働を確認する",
    "The gateway is alive; `nats` is the state of its broker connection.": (
        "Gateway は稼働中です。`nats` は broker との接続の状態です。"
    ),
    "Ready": "受け付けられるかを確認する",
    "The gateway is connected, its index is complete, and a write was acknowledged within the last second.": (
        "Gateway が broker に接続し、索引が完成し、直近 1 秒以内に書き込みが確認されています。"
    ),
    "The gateway accepts runs.": "Gateway は run を受け付けます。",
    "The gateway accepts no runs: the first reason, and all of them.": (
        "Gateway は run を受け付けません。最初の理由と、すべての理由です。"
    ),
    "`lost`: the broker has lost events of some runs; the metrics and the log say how many.": (
        "`lost` の場合、一部の run のイベントが broker から失われています。件数はメトリクスとログにあります。"
    ),
    "Broker, index and writes, as far as they could be checked.": "broker、索引、書き込みのうち、確認できたもの。",
    "`status` is about this process; `nats` says whether runs can be accepted right now.": (
        "`status` はこのプロセスの状態、`nats` は現在 run を受け付けられるかどうかです。"
    ),
}
