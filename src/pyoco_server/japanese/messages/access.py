"""API keys, bearer tokens, tickets and scopes."""

from __future__ import annotations

TEXTS = {
    # Bearer tokens and the keys that check them
    "this is a private key; give the gateway the public one only": (
        "これは秘密鍵です。Gateway には公開鍵だけを渡してください"
    ),
    "accepted: a PEM public key, RSA of at least 2048 bits or P-256 (BEGIN PUBLIC KEY)": (
        "PEM 形式の公開鍵（2048 ビット以上の RSA か P-256、BEGIN PUBLIC KEY）を指定してください"
    ),
    'accepted: a JWKS, {{"keys": [...]}}, with at most {count} keys': (
        'JWKS（{{"keys": [...]}}、鍵は {count} 個まで）を指定してください'
    ),
    "there is no key in it that can be used: RSA of at least 2048 bits or P-256, with a kid": (
        "使える鍵がありません。kid のある RSA（2048 ビット以上）か P-256 の鍵が必要です"
    ),
    "the key {name} is a secret one; give the gateway public keys only": (
        "鍵 {name} は秘密鍵です。Gateway には公開鍵だけを渡してください"
    ),
    "there are two keys with the kid {name}": "kid {name} の鍵が 2 つあります",
    "{path} has more than {size} bytes, which no set of keys needs": (
        "{path} は {size} バイトを超えています。鍵のファイルとしては大きすぎます"
    ),
    "cannot read the keys for tokens in {path}: {reason}": "token 用の鍵を {path} から読み取れません: {reason:ja}",
    "a token with the header {name} is not accepted": "ヘッダー {name} のある token は受け付けません",
    "the token's typ is not JWT": "token の typ が JWT ではありません",
    "the token is signed with a key that is not known here": "token の署名に使われた鍵が登録されていません",
    "the token has more than {count} characters": "token が {count} 文字を超えています",
    "the token must be signed with {algorithm}": "token は {algorithm} で署名してください",
    "the token's signature is wrong": "token の署名が正しくありません",
    "the token cannot be read": "token を読み取れません",
    "the token has expired": "token の有効期限が切れています",
    "the token is not valid yet; compare the clocks": "token はまだ有効ではありません。双方の時刻を確認してください",
    "the token's iss is not the issuer that is trusted here": "token の iss が、信頼している発行者と異なります",
    "the token's aud does not name this service": "token の aud にこのサービスがありません",
    "the token needs {name} as a time in seconds": "token の {name} に秒単位の時刻が必要です",
    "the token needs sub, 1 to {count} printable characters": "token の sub に 1～{count} 文字の印字可能文字が必要です",
    "the token needs the claim {name}: {rule}": "token のクレーム {name} が必要です: {rule:ja}",
    "1 to 64 of the characters A-Z a-z 0-9 _ . -": "A-Z a-z 0-9 _ . - の 1～64 文字",
    "send one bearer token only": "bearer token は 1 つだけ送ってください",
    # API keys
    "a key id has 16 of the characters 0-9 a-f (for example: 0123456789abcdef)": (
        "key id は 0-9 a-f の 16 文字です（例: 0123456789abcdef）"
    ),
    "a key's name has 1 to {count} printable characters": "key の名前は 1～{count} 文字の印字可能文字です",
    "this API key was revoked": "この API key は失効しています",
    "this API key has expired": "この API key は有効期限が切れています",
    "the API key behind this was revoked or has expired": "元の API key が失効したか、有効期限が切れています",
    "the API key cannot be checked while nats is away": "NATS に接続できないため、API key を確認できません",
    "send one API key only": "API key は 1 つだけ送ってください",
    "send an API key or a bearer token, not both": "API key と bearer token はどちらか一方だけを送ってください",
    "a tenant has {rule} (for example: --tenant team-a)": "tenant は {rule:ja}です（例: --tenant team-a）",
    "the key would have expired already (for example: --expires-in 90d)": (
        "指定した有効期限は過ぎています（例: --expires-in 90d）"
    ),
    "there is no API key {key_id}; see: pyoco-server-admin api-key list --all": (
        "API key {key_id} はありません。一覧: pyoco-server-admin api-key list --all"
    ),
    "no pyoco-server is up with the data folder {folder}; start it, or give --nats-url": (
        "データフォルダ {folder} で稼働中の pyoco-server がありません。起動するか、--nats-url を指定してください"
    ),
    "--expires-in and --expires-at exclude each other": "--expires-in と --expires-at は同時に指定できません",
    "--expires-in is a number and a unit, s m h d w (for example: --expires-in 90d)": (
        "--expires-in は数値と単位（s m h d w）です（例: --expires-in 90d）"
    ),
    "--expires-at is a date or a time in UTC (for example: {example})": (
        "--expires-at は日付か UTC の時刻です（例: {example:ja}）"
    ),
    "--expires-at 2030-01-31 or --expires-at 2030-01-31T12:00:00Z": (
        "--expires-at 2030-01-31 または --expires-at 2030-01-31T12:00:00Z"
    ),
    # Scopes
    "this needs the scope {scope}": "scope {scope} が必要です",
    "{problem}; accepted: {scopes} (for example: --scopes runs:read,runs:write)": (
        "{problem:ja}。使える scope: {scopes}（例: --scopes runs:read,runs:write）"
    ),
    "{name} is not a scope": "{name} という scope はありません",
    "no scope is given": "scope が指定されていません",
    # Tickets
    "send a ticket or a header, not both": "ticket とヘッダーはどちらか一方だけを送ってください",
    "the time of a stream with the ticket of a token is over": "token の ticket で開いたストリームの期限が過ぎました",
    "this ticket is for another job": "この ticket は別の job のものです",
    "this ticket has expired": "この ticket は期限が切れています",
}
