"""The Japanese of `GET /whoami` in the OpenAPI document, by the English text."""

from __future__ import annotations

TEXTS = {
    "Who Am I": "認証情報の確認",
    "The caller's name, tenant and scopes, and when its credentials expire; for any caller, whatever its scopes.": (
        "呼び出し元の名前、tenant、scope と、認証情報の有効期限を返します。どの scope の呼び出し元でも使えます。"
    ),
    "The caller, as the credentials of this request show it.": "このリクエストの認証情報が示す呼び出し元。",
    "The id of the API key, the subject of the token, or `anonymous`.": (
        "API key の id、トークンの subject、または `anonymous`。"
    ),
    "`anonymous`: the gateway has no access control, and everything is permitted.": (
        "`anonymous`: Gateway のアクセス制御が無効で、すべての操作ができます。"
    ),
    "The tenant of the runs it submits.": "投入した run が属する tenant。",
    "What it may do; `admin` is all of it, for every tenant.": (
        "許可された操作。`admin` はすべての tenant に対するすべての操作です。"
    ),
    "Of a token: those of PYOCO_JWT_AUDIENCE that it is for; null: it is for all APIs.": (
        "トークンの場合、PYOCO_JWT_AUDIENCE のうち対象となるもの。null はすべての API が対象です。"
    ),
    "Unix seconds; null: the credentials do not expire.": "unix 秒。null は期限なしです。",
}
