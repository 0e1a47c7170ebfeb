"""`/pdca/strategies` and `/gui/strategies`."""

from __future__ import annotations

TEXTS = {
    "Put Strategy": "strategy を登録・置換する",
    "Register a strategy, or replace the one of this id. The next list of this gateway shows it.": (
        "strategy を登録するか、同じ id のものを置き換えます。この Gateway の次の一覧に反映されます。"
    ),
    "The strategy's id: a-z 0-9 . _ -": "strategy の id。a-z 0-9 . _ -",
    "Replaced, or as it was": "置き換えました。または変更なし",
    "A new strategy": "新しい strategy",
    "A strategy. Its id may be repeated here.": "strategy。id をここにも書けます。",
    "Disabled strategies are not rechecked.": "無効な strategy は再チェックしません。",
    "Delete Strategy": "strategy を削除する",
    "Remove a strategy; what is not there is removed already. Its results stay as long as their runs.": (
        "strategy を削除します。存在しなくても成功です。結果は run と同じ期間保管されます。"
    ),
    "List Strategies": "strategy の一覧を取得する",
    "Strategies with their newest results, by page.": "strategy と最新の結果をページごとに返します。",
    "Strategies that were never checked are the last ones of `last_checked_at.desc`; those with equal fields are in the "
    "order of their ids.": (
        "未チェックの strategy は `last_checked_at.desc` の最後に並びます。値が同じものは id 順です。"
    ),
    "A part of the id or the title, in any case; no wildcards.": (
        "id または title の一部。大文字と小文字を区別せず、ワイルドカードはありません。"
    ),
    "Tags joined by commas.": "tag。カンマ区切り。",
    "`healthy`, `degraded`, `unknown`, joined by commas.": "`healthy`、`degraded`、`unknown`。カンマ区切り。",
    "Instruments joined by commas.": "instrument。カンマ区切り。",
    "`last_checked_at`, `id`, `instrument` or `health`, and `.asc` or `.desc`.": (
        "`last_checked_at`、`id`、`instrument`、`health` のいずれかと `.asc` または `.desc`。"
    ),
    "Get Strategy": "strategy を取得する",
    "A strategy with averages, its newest results and their files. Results are kept as long as their runs.": (
        "strategy と指標の平均、最新の結果とそのファイル。結果は run と同じ期間保管されます。"
    ),
    "The days of the averages.": "平均を取る日数。",
    "How many of the newest results.": "最新の結果の件数。",
    "Get Results": "strategy の結果を取得する",
    "The results of a strategy, newest first.": "strategy の結果。新しい順。",
    "Checked at this time or later.": "この時刻以後のチェック。",
    "Checked at this time or earlier.": "この時刻以前のチェック。",
    "Indicators, as far as they were computed.": "計算できた指標。",
    "Results, newest first.": "結果。新しい順。",
    "The result of a strategy in one batch, with the files of the batch.": (
        "1 つの batch での strategy の結果と、その batch のファイル。"
    ),
    "A strategy with its newest results and their files.": "strategy と最新の結果、そのファイル。",
    "One page; `total` counts all that match.": "1 ページ。`total` は条件に合うすべての件数。",
    "A registered strategy with its newest result; one that was never checked is `unknown`.": (
        "登録済みの strategy と最新の結果。未チェックなら `unknown`。"
    ),
    "A registered strategy.": "登録済みの strategy。",
    "Averages over the last days; an indicator without results is absent.": (
        "直近の日数での平均。結果のない指標は含みません。"
    ),
}
