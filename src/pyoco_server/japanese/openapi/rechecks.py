"""`/pdca/recheck`, `/gui/requests` and `/gui/artifacts`."""

from __future__ import annotations

TEXTS = {
    "Recheck": "名前を指定して再チェックする",
    "Check the named strategies again, in batches of 25.": (
        "指定した strategy を 25 個ずつの batch で再チェックします。"
    ),
    "202 means: no kill of any process can lose the request now. A dry run is only estimated, and its id leads nowhere.": (
        "202 の応答後は、どのプロセスが強制終了しても request は失われません。"
        "dry run は見積もりだけで、その id では何も取得できません。"
    ),
    "Recheck All": "条件に合う strategy をすべて再チェックする",
    "Check all enabled strategies again that the filter admits.": (
        "有効な strategy のうち、filter に合うものをすべて再チェックします。"
    ),
    "A filter that admits none is a request without batches, which has succeeded at once. More than 2,000 batches are "
    "refused: raise `batch_size`, or narrow the filter.": (
        "filter に合うものがなければ batch のない request になり、すぐに成功します。2,000 個を超える batch は拒否します。"
        "`batch_size` を上げるか、filter を狭めてください。"
    ),
    "Stored and started, or answered before with the same key": "保存して開始しました。または同じキーで応答済みです",
    "Strategies by name.": "名前を指定した strategy。",
    "All enabled strategies that the filter admits.": "有効な strategy のうち filter に合うものすべて。",
    "The time that is checked: `from` and `to`, or the last days.": ("対象の期間: `from` と `to`、または直近の日数。"),
    "Not before `from`, and at most 180 days behind it.": "`from` 以後で、180 日以内。",
    "Why: shown with the request.": "理由。request と一緒に表示されます。",
    "Only estimate: nothing is stored or started.": "見積もりだけを行い、保存も開始もしません。",
    "Which measures to compute again; none: all.": "再計算する指標。空ならすべて。",
    "Ties log lines together; not part of what is compared.": (
        "ログの行を関連付けます。同じリクエストかどうかの比較には使いません。"
    ),
    "Each part admits any of its values; a missing or empty one admits all.": (
        "各条件は、値のいずれかに合えば満たされます。省略か空なら制限しません。"
    ),
    "Get Recheck": "request の進捗を取得する",
    "How far a request is, in numbers that add up.": "request の進捗。数値は互いに整合しています。",
    "The id of the request, a ULID.": "request の id（ULID）。",
    "Get Gui Request": "request の進捗を取得する（GUI）",
    "The same as `GET /pdca/recheck/{{request_id}}`, for tokens of the GUI.": (
        "`GET /pdca/recheck/{{request_id}}` と同じ内容で、GUI の token で使えます。"
    ),
    "Get Artifact Url": "artifact へのリンクを取得する",
    "A link to the file that works for 300 seconds without credentials, at any gateway.": (
        "資格情報なしで 300 秒間使えるリンク。どの gateway でも有効です。"
    ),
    "The artifact's id, as its request lists it.": "request の一覧にある artifact の id。",
    "Get Artifact": "リンク先の artifact を取得する",
    "The file of a link, which needs no credentials until it expires.": (
        "リンク先のファイル。期限まで、リンクがあれば読めます。"
    ),
    "The file, as it was stored": "保存されたファイル",
    "A file of a batch; `GET /gui/artifacts/{{id}}/url` leads to it.": (
        "batch のファイル。`GET /gui/artifacts/{{id}}/url` で取得できます。"
    ),
    "A link that needs no credentials, relative to the address of the gateway.": (
        "資格情報の要らないリンク。gateway のアドレスからの相対パスです。"
    ),
    "null: there is none, because of a dry run or no strategies.": (
        "null: dry run か、strategy がないため存在しません。"
    ),
    "The flow or DAG that runs the batches, and its run of the first batch.": (
        "batch を実行する flow または DAG と、最初の batch の run。"
    ),
    "The errors of `/pdca` and `/gui`: there are no others.": "`/pdca` と `/gui` のエラー。これ以外はありません。",
    "Seconds; only of RATE_LIMITED.": "秒。RATE_LIMITED のときだけ。",
    "An error of `/pdca` and `/gui`.": "`/pdca` と `/gui` のエラー。",
    "A batch is completed when it has ended, with success or not; its strategies with it.": (
        "成功でも失敗でも、終わった batch とその strategy を完了と数えます。"
    ),
    "true: there are more than 2,000; `GET /gui/strategies/{{id}}` has those of a strategy.": (
        "true: 2,000 個を超えています。strategy ごとのものは `GET /gui/strategies/{{id}}` にあります。"
    ),
    "A ULID.": "ULID です。",
    "The request is stored; a dry run is not.": "request は保存済みです（dry run を除く）。",
    "A cancelled request has failed.": "取り消された request は failed です。",
    "Why it does not go on at present, or that batches of a canceled request are still to be stopped.": (
        "進んでいない理由、または取り消した request の batch がまだ停止していないこと。"
    ),
    "A request and its progress, from one state of its events.": "request とその進捗。1 つの時点の event に基づきます。",
    "Those of the batches that were started, in their order.": "開始した batch の run の id（batch 順）。",
    "Of the completed strategies: those of batches that succeeded and failed, and their health.": (
        "完了した strategy のうち、成功した batch と失敗した batch のものの数と、その health。"
    ),
    "Bad Request": "不正なリクエスト",
    "Too Many Requests": "リクエストが多すぎます",
    "Bad Gateway": "engine が応答しません",
    "Forbidden": "許可されていません",
}
