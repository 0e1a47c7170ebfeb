"""Rechecks, their requests and artifacts."""

from __future__ import annotations

TEXTS = {
    "temporarily unavailable; send the request again in a moment": (
        "一時的に利用できません。少し待って再送してください"
    ),
    "the engine that runs batches does not answer; send the request again in a moment": (
        "batch を実行する engine が応答しません。少し待って再送してください"
    ),
    "internal error; report it with the X-Request-Id of this response": (
        "内部エラーが発生しました。この応答の X-Request-Id を添えて報告してください"
    ),
    "an artifact may have at most {most} bytes": "artifact は {most} バイト以下にしてください",
    "this needs one of the scopes {scopes}": "次のいずれかの scope が必要です: {scopes}",
    "the token's aud does not name this API": "token の aud にこの API がありません",
    "the token has no claim that lists its scopes": "token に scope の claim がありません",
    "the header Idempotency-Key needs {least} to {most} characters, for example a ULID or a UUID": (
        "Idempotency-Key ヘッダーに {least}〜{most} 文字の値（ULID や UUID など）を指定してください"
    ),
    "{why}: raise batch_size (at most 100), or choose fewer strategies by the filter": (
        "{why:ja}: batch_size を上げるか（最大 100）、filter で strategy を減らしてください"
    ),
    "{count} batches are more than {most}": "batch が {count} 個あり、上限の {most} 個を超えています",
    "the ids of {count} strategies are too long for one request": (
        "{count} 個の strategy の id が 1 つの request に収まりません"
    ),
    "{name} is the name of the requests that /pdca makes: choose another one": (
        "{name} は /pdca が作る request の名前です。別の名前を指定してください"
    ),
    "a request of the PDCA API is not run again: send it to /pdca/recheck or /pdca/recheck_all with a new key": (
        "PDCA API の request は再実行できません。新しいキーで /pdca/recheck または /pdca/recheck_all に送信してください"
    ),
    # Of fields
    "a time is RFC 3339 with an offset: 2025-08-24T03:34:56Z": (
        "時刻は offset 付きの RFC 3339 で指定してください: 2025-08-24T03:34:56Z"
    ),
    "there is no such time": "存在しない時刻です",
    "it must be printable text, and not only spaces": "表示できる文字で、空白だけにならないようにしてください",
    "{value} is there twice": "{value} が重複しています",
    "give from and to, or lookback_days": "from と to、または lookback_days を指定してください",
    "canceled; its batches are stopped as soon as the engine answers": (
        "取り消されました。engine が応答し次第、batch を停止します"
    ),
    "from is after to": "from が to より後になっています",
    "it is longer than {days} days": "{days} 日を超えています",
}
