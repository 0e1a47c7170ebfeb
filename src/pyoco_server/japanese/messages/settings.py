"""Settings and the dotenv file."""

from __future__ import annotations

TEXTS = {
    "{name} is {value}; accepted: {accepted}": "{name} の値 {value} は使えません。使える値: {accepted:ja}",
    "{name} is {value}; accepted: below {upper}, which is {limit}": (
        "{name} の値 {value} は使えません。{upper}（{limit}）より小さくしてください"
    ),
    "{name} is {value}; accepted: a name outside that of {other}, which is {taken}": (
        "{name} の値 {value} は使えません。{other}（{taken}）と重ならない名前にしてください"
    ),
    "{name} is {value}; accepted: a file that exists": "{name} の値 {value} は使えません。存在するファイルを指定してください",
    "PYOCO_HTTP_API_KEY_HEADER is 'Authorization'; accepted: another header, for example X-API-Key": (
        "PYOCO_HTTP_API_KEY_HEADER に 'Authorization' は使えません。X-API-Key など別のヘッダーにしてください"
    ),
    "PYOCO_JWT_JWKS_FILE and PYOCO_JWT_PEM_FILE are both set; accepted: one of them": (
        "PYOCO_JWT_JWKS_FILE と PYOCO_JWT_PEM_FILE は、どちらか一方だけを設定してください"
    ),
    "PYOCO_HTTP_AUTH_MODE is {mode} and needs {variable}, which is not set": (
        "PYOCO_HTTP_AUTH_MODE が {mode} のため、{variable:ja} の設定が必要です"
    ),
    "PYOCO_JWT_JWKS_FILE or PYOCO_JWT_PEM_FILE": "PYOCO_JWT_JWKS_FILE か PYOCO_JWT_PEM_FILE",
    "{path}: cannot be read as UTF-8 text ({reason})": "{path}: UTF-8 のテキストとして読み取れません（{reason}）",
    "{path}, line {number}: accepted: KEY=VALUE, # comment": (
        "{path} の {number} 行目: KEY=VALUE か # コメントにしてください"
    ),
    # What a setting accepts
    "a whole number from {least}": "{least} 以上の整数",
    "a whole number from {least} to {most}": "{least}～{most} の整数",
    "a number above 0": "0 より大きい数値",
    "a number from 0": "0 以上の数値",
    "a number from 60": "60 以上の数値",
    "a number from 0 to 600": "0～600 の数値",
    "any text": "任意の文字列",
    "printable text": "印字可能な文字列",
    "a path": "パス",
    "letters, digits, _ and -": "英数字、_ と -",
    "at most {most} letters, digits, _ and -": "{most} 文字以内の英数字、_ と -",
    "names joined by dots (letters, digits, _ and -)": "ドットでつないだ名前（英数字、_ と -）",
    "the name of an HTTP header": "HTTP ヘッダーの名前",
    "nats://host:port (also tls://, ws://, wss://), several joined by commas": (
        "nats://host:port（tls://、ws://、wss:// も可、複数はカンマ区切り）"
    ),
    "names joined by commas (pyoco.example.org, *.internal), without port; other than ASCII as xn--…": (
        "カンマ区切りの名前（pyoco.example.org、*.internal）。ポートは付けず、ASCII 以外は xn--… の形で書きます"
    ),
    "the name of a {what}": "{what} の名前",
}
