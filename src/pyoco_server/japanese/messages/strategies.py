"""Strategies, their lists, and files of them."""

from __future__ import annotations

TEXTS = {
    "title: 1 to {count} printable characters are accepted": "title: 表示できる文字 1〜{count} 文字で指定してください",
    "instrument: 1 to {count} printable characters without commas are accepted": (
        "instrument: カンマを除く表示できる文字 1〜{count} 文字で指定してください"
    ),
    "tags: at most {count} are accepted": "tags: {count} 個以下で指定してください",
    "tags: each has 1 to {count} printable characters without commas": (
        "tags: それぞれカンマを除く表示できる文字 1〜{count} 文字で指定してください"
    ),
    "there is no strategy {names}": "strategy が見つかりません: {names}",
    "disabled strategies cannot be rechecked: {names}": "無効な strategy は再チェックできません: {names}",
    "id: the body names another strategy than the path": "id: 本文の strategy がパスと異なります",
    "no strategy has an id of this form": "この形式の id の strategy はありません",
    "the list of strategies is being built after a start; try again in a moment": (
        "起動直後のため strategy の一覧を作成中です。少し待って再試行してください"
    ),
    # Lists by page
    "1 to {values} values joined by commas, each of 1 to {chars} characters": (
        "カンマ区切りで 1〜{values} 個、それぞれ 1〜{chars} 文字で指定してください"
    ),
    "known values are {values}": "指定できる値は {values} です",
    # Files
    "{path}: the name of the file has to end with {endings}": "{path}: ファイル名は {endings} で終わる必要があります",
    "{path} cannot be read: {reason}": "{path} を読み込めません: {reason}",
    "{path} is not UTF-8 text": "{path} は UTF-8 のテキストではありません",
    "id: it is there twice, first in line {line}": "id: 重複しています。最初は {line} 行目です",
    "it has {found}, and not the fields {fields}": "項目が {fields} ではありません（{found}）",
    "{name}: there is no such field": "{name}: このような項目はありません",
    "{name}: a text is required": "{name}: 文字列が必要です",
    "enabled: one of {words} is accepted": "enabled: {words} のいずれかを指定してください",
    "tags: a list of texts is accepted": "tags: 文字列のリストで指定してください",
    "--tenant: {words}": "--tenant: {words:ja}",
}
