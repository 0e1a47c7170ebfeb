"""HTTP requests: bodies, forms, queries, ranges, cursors, ids."""

from __future__ import annotations

TEXTS = {
    "{name} and {alias} are the same field and differ": "{name} と {alias} は同じ項目ですが、値が異なります",
    "no running worker announces the flow {flow}, did you mean {near}?": (
        "flow {flow} を公開している稼働中の worker はありません。もしかして: {near}"
    ),
    "no running worker announces the flow {flow}": ("flow {flow} を公開している稼働中の worker はありません"),
    "{id} is not a strategy id": "{id} は strategy の id ではありません",
    "{id} is not a request id": "{id} は request の id ではありません",
    "{flow} is not the name of a flow": ("{flow} は flow の名前ではありません"),
    "{flow} is not served under the tag {tag}": ("flow {flow} は tag {tag} では提供されていません"),
    "params: {name} is not a parameter of the file of this run, which has {names}": (
        "params: {name} はこの run のファイルのパラメーターではありません（パラメーター: {names}）"
    ),
    "no worker is running now, and the run waits for one": "稼働中の worker がないため、run は worker を待ちます",
    "no running worker serves the tag {tag}, did you mean {near}?": (
        "tag {tag} を担当する稼働中の worker はありません。もしかして: {near}"
    ),
    "no running worker serves the tag {tag}, but others serve {tags}": (
        "tag {tag} を担当する稼働中の worker はありません。担当されている tag: {tags}"
    ),
    "no worker of the tag {tag} announces the flow {flow}, but those of {tags} do": (
        "tag {tag} の worker に flow {flow} はありません。{tags} の worker にはあります"
    ),
    "no worker of the tag {tag} announces the flow {flow}, did you mean {near}?": (
        "tag {tag} の worker に flow {flow} はありません。もしかして: {near}"
    ),
    "no worker of the tag {tag} announces the flow {flow}, but they announce {flows}": (
        "tag {tag} の worker に flow {flow} はありません。公開されている flow: {flows}"
    ),
    "the workers of the tag {tag} do not announce their flows": "tag {tag} の worker は flow を公開していません",
    "the flow {flow} has no parameter {name}, did you mean {near}?": (
        "flow {flow} にパラメーター {name} はありません。もしかして: {near}"
    ),
    "the flow {flow} has no parameter {name}, but {known}": (
        "flow {flow} にパラメーター {name} はありません。パラメーター: {known}"
    ),
    "the flow {flow} has no parameters, and {name} is given": (
        "flow {flow} にパラメーターはありませんが、{name} が指定されています"
    ),
    "the flow {flow} requires the parameter {names}": "flow {flow} にはパラメーター {names} が必要です",
    "there is no graph or flow {name}, did you mean {near}?": "{name} という graph・flow はありません。もしかして: {near}",
    "there is no graph or flow {name}": "{name} という graph・flow はありません",
    "params must be a JSON object": "params は JSON オブジェクトにしてください",
    "params: {name} is given, but the file has no flow.defaults": (
        "params: {name} が指定されていますが、ファイルに flow.defaults がありません"
    ),
    "params: {name} is not a key of flow.defaults, which has {known}": (
        "params: {name} は flow.defaults のキーではありません（キー: {known}）"
    ),
    # Bodies
    "the body has {count} fields; known are {known}": "本文に {count} 個の項目があります。使える項目: {known}",
    "{name}: {size} bytes as JSON; at most {limit} are accepted": "{name}: JSON で {size} バイトあります。上限は {limit} です",
    "the body has more values than are accepted": "本文の値の数が上限を超えています",
    "the body is not JSON: {error}": "本文が JSON ではありません: {error}",
    "the body is nested deeper than {count} levels": "本文の入れ子が {count} 段を超えています",
    "integers beyond 64 bits would be rounded; send them as strings": (
        "64 ビットを超える整数は丸められます。文字列で送ってください"
    ),
    "the body may have at most {size} bytes": "本文の上限は {size} バイトです",
    "the body arrives too slowly: {size} bytes in {count} s": "本文の受信が遅すぎます（{count} 秒で {size} バイト）",
    "no more of the body arrived for {count} s": "本文の続きが {count} 秒間届きませんでした",
    "the body ended early": "本文が途中で終わりました",
    "the gateway is stopping; the request may have been carried out": (
        "Gateway は停止中です。リクエストは実行された可能性があります"
    ),
    # Forms
    "the content type is not {type}; with curl: {example}": "Content-Type が {type} ではありません。curl の例: {example}",
    "{name} must be text, not a file": "{name} はファイルではなく文字列で送ってください",
    "the body is not {type}: {error}": "本文が {type} ではありません: {error:ja}",
    "the upload cannot be stored on disk (see TMPDIR): {reason}": (
        "アップロードをディスクに保存できません（TMPDIR を確認してください）: {reason:ja}"
    ),
    "unknown part {name}; known are {known}": "未知のパート {name} があります。使えるパート: {known}",
    "the part {name} is there twice": "パート {name} が 2 回あります",
    "the part 'workflow' is missing: the flow.yaml as a file": (
        "パート 'workflow' がありません。flow.yaml をファイルとして送ってください"
    ),
    # Hosts
    "the request has {count} Host headers; one is required": (
        "リクエストの Host ヘッダーが {count} 個です。1 個だけ送ってください"
    ),
    "the Host header {text} is not a name or an address with an optional port": (
        "Host ヘッダー {text} は、名前かアドレス（とポート）の形式ではありません"
    ),
    "this gateway does not answer to the name {name} (PYOCO_HTTP_ALLOWED_HOSTS)": (
        "この Gateway は名前 {name} では応答しません（PYOCO_HTTP_ALLOWED_HOSTS）"
    ),
    # Queries
    "the query has {count} parameters; at most {most} are accepted": (
        "クエリのパラメータが {count} 個あります。上限は {most} 個です"
    ),
    "{name}: there is no such parameter here; {known}": "{name}: このパラメータはありません。{known:ja}",
    "known are {names}": "使えるもの: {names}",
    "it takes none": "この操作にパラメータはありません",
    "{method} is not allowed at {path}; allowed: {methods}": "{path} で {method} は使えません。使えるメソッド: {methods}",
    "there is nothing at {path}": "{path} には何もありません",
    "since: it is not before until": "since: until より前の時刻を指定してください",
    "since: the window is longer than {days} days": "since: 期間は最大 {days} 日です",
    "cursor: it was not made by this server; start with an empty one": (
        "cursor: このサーバーが発行したものではありません。空の cursor から始めてください"
    ),
    "this gateway has not read as far as the cursor yet; try again in a moment": (
        "この Gateway はまだ cursor の位置まで読み込んでいません。少し待って再試行してください"
    ),
    "at: a version is a number from 1 to {most}": "at: version は 1～{most} の数値にしてください",
    "at: {problem}; or a version, a number without a point": (
        "at: {problem:ja}。version の場合は小数点のない数値にしてください"
    ),
    "a time is unix seconds (1771416000.5), a date (2026-02-18, from its midnight) or RFC 3339 "
    "(2026-02-18T21:00:00+09:00); without an offset it is UTC": (
        "時刻は Unix 秒（1771416000.5）、日付（2026-02-18、その日の 0 時から）、RFC 3339（2026-02-18T21:00:00+09:00）の"
        "いずれかです。オフセットがなければ UTC です"
    ),
    "there is no such time; {rule}": "この時刻は存在しません。{rule:ja}",
    "the head of the request is too large": "リクエストのヘッダー部が大きすぎます",
    "the request has too many headers": "リクエストのヘッダーが多すぎます",
    # Logs
    "Range counts the bytes of the whole log: leave out the query, or the Range": (
        "Range はログ全体のバイト位置です。クエリか Range のどちらか一方にしてください"
    ),
    "tail and sinceToken exclude each other; continue a tail with its nextToken": (
        "tail と sinceToken は同時に指定できません。続きは nextToken で読んでください"
    ),
    "tail and from_line exclude each other": "tail と from_line は同時に指定できません",
    "since_token and from_line exclude each other": "since_token と from_line は同時に指定できません",
    "a search needs q, task or level": "検索には q、task、level のいずれかが必要です",
    "tail and since_token exclude each other; continue a tail with its next_token": (
        "tail と since_token は同時に指定できません。続きは next_token で読んでください"
    ),
    "there are {size} bytes; none of them is in the range": "全体は {size} バイトで、指定された範囲に含まれません",
    "send text: JSON in a text frame": "テキストフレームで JSON を送ってください",
    # Ids
    "tag must be 1 to 64 of the characters A-Z a-z 0-9 _ -": "tag は A-Z a-z 0-9 _ - の 1～64 文字にしてください",
    "a tag in tags must be 1 to {count} printable characters, and not . or ..": (
        "tags の各 tag は 1～{count} 文字の印字可能文字にしてください（. と .. は使えません）"
    ),
    "worker id must be 1 to 128 of the characters A-Z a-z 0-9 _ - and single dots inside": (
        "worker id は A-Z a-z 0-9 _ - と、途中の単独の . からなる 1～128 文字にしてください"
    ),
    "more than {limit} requests of the class {name} in a minute; wait {sec} s": (
        "{name} のリクエストが 1 分あたりの上限 {limit} 件を超えました。{sec} 秒待ってください"
    ),
    "this caller has {count} open streams, as many as a caller may have at this gateway": (
        "この呼び出し元は、1 つの Gateway で開けるストリームの上限（{count} 本）に達しています"
    ),
}
