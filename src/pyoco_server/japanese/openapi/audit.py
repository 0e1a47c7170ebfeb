"""The Japanese of the audit trail in the OpenAPI document, by the English text."""

from __future__ import annotations

TEXTS = {
    "List Audit": "監査記録の一覧",
    "Who changed what, from where and by which request, newest first; of all tenants.": (
        "誰が、何を、どこから、どのリクエストで変更したかを新しい順に返します。すべての tenant が対象です。"
    ),
    "Kept for PYOCO_AUDIT_RETENTION_SEC, longer than runs.": (
        "PYOCO_AUDIT_RETENTION_SEC の間、run より長く保持されます。"
    ),
    "Only of this key, subject or operator; `anonymous`.": "この key、subject、操作者の記録だけ。`anonymous` も可。",
    "Only this action.": "この操作だけ。",
    "Only of this run, key, wheel, graph, worker or strategy.": (
        "この run、key、wheel、graph、worker、strategy の記録だけ。"
    ),
    "Only of this X-Request-Id.": "この X-Request-Id の記録だけ。",
    "At this time or later: unix seconds, a date, or RFC 3339 (UTC without an offset).": (
        "この時刻以降。unix 秒、日付、RFC 3339（オフセットなしは UTC）で指定します。"
    ),
    "Earlier than this time.": "この時刻より前。",
    "The `next_cursor` of the page before, with the same filters.": "前のページの `next_cursor`。絞り込みは同じにします。",
    "The id of the API key, the subject of the token, `user@host` of an operator; null: anonymous.": (
        "API key の id、トークンの subject、または操作者の `user@host`。null は匿名です。"
    ),
    "Who: a `user` of the API or an `operator` of `pyoco-server-admin`.": (
        "誰が。API の `user` か、`pyoco-server-admin` の `operator` です。"
    ),
    "`made`, or `attempted`: the gateway was killed before it could say.": (
        "`made`（変更済み）、または `attempted`（結果を記録する前に Gateway が停止した）。"
    ),
    "The tenant of the resource, where the change names it.": "対象の tenant（変更に含まれる場合）。",
    "Where the request came from.": "リクエストの送信元。",
    "Its X-Request-Id.": "その X-Request-Id。",
    "Facts of the action: flow, node, tag, version, scopes.": "操作の詳細: flow、node、tag、version、scopes。",
    "One change by one request. More fields may be added at any time.": (
        "1 つのリクエストによる 1 つの変更。フィールドは随時追加されることがあります。"
    ),
    "One page, newest first. Only the last one has no `next_cursor`.": (
        "新しい順の 1 ページ。`next_cursor` がないのは最後のページだけです。"
    ),
    "`run`, `api_key`, `wheel`, `graph`, `worker`, `strategy`.": (
        "種類: `run`、`api_key`、`wheel`、`graph`、`worker`、`strategy`。"
    ),
    "What was changed.": "変更されたもの。",
    "The X-Request-Id of the HTTP request, a ULID.": "HTTP リクエストの X-Request-Id（ULID）。",
}
