"""Graphs as users store them."""

from __future__ import annotations

TEXTS = {
    "{count} edges are more than {limit}": "edge が {count} 本あります。上限は {limit} 本です",
    "a graph needs at least one node": "graph には 1 つ以上の node が必要です",
    "node id {node} does not have 1 to {count} characters": "node id {node} は 1～{count} 文字にしてください",
    "node {node} is defined twice": "node {node} が 2 回定義されています",
    "edge from or to unknown node {node}": "edge が未知の node {node} を参照しています",
    "node {node} has an edge to itself": "node {node} に自身への edge があります",
    "the edge from {source} to {target} is defined twice": "{source} から {target} への edge が 2 回定義されています",
    "these nodes wait for each other: {nodes}": "node が互いに待ち合っています: {nodes}",
    # Choices
    "must be a list of 1 to {count} choices": "1～{count} 個の選択肢のリストにしてください",
    "a choice is listed twice": "同じ選択肢が 2 回あります",
    "a choice must be a text, a number, true or false": "選択肢は文字列、数値、true、false のいずれかにしてください",
    "a choice must have 1 to {count} printable characters": "選択肢は 1～{count} 文字の印字可能文字にしてください",
    "choices: {problem}": "choices: {problem:ja}",
    "the edge from {source} to {target} has `when`, but the prompt of {node} has no choices": (
        "{source} から {target} への edge に `when` がありますが、{node} の prompt に選択肢がありません"
    ),
    "the edge from {source} to {target} has `when` {unknown}; the choices of {node} are {known}": (
        "{source} から {target} への edge の `when` {unknown} は、{node} の選択肢 {known} にありません"
    ),
    "and {count} more": "ほか {count} 件",
    "must be the id of a task, or an object of the type task or wait": (
        "task の id か、type が task または wait のオブジェクトにしてください"
    ),
    "must be printable, without '/', and not '.' or '..'": (
        "印字可能文字にしてください（'/' は使えません。'.' と '..' も使えません）"
    ),
    "must be printable": "印字可能文字にしてください",
    "{size} bytes as JSON are more than {limit}": "JSON で {size} バイトあります。上限は {limit} です",
    "the id of a graph has {rule}, unlike {graph_id}": "graph の id は {rule:ja}（現在: {graph_id}）",
    "1 to {count} printable characters without '/', and is not '.' or '..'": (
        "'/' を含まない 1～{count} 文字の印字可能文字です。'.' と '..' は使えません"
    ),
    "the graph has {size} bytes as JSON; at most {limit} are kept": (
        "graph が JSON で {size} バイトあります。上限は {limit} です"
    ),
    'If-Match must be one version in quotes, as the ETag of a graph has it: "3"': (
        'If-Match には、graph の ETag と同じく引用符付きの version を 1 つ指定してください（例: "3"）'
    ),
    "If-Match and expectedVersion name different versions": "If-Match と expectedVersion の version が異なります",
    "{problem}; for YAML send Content-Type: {type}": (
        "{problem:ja}。YAML の場合は Content-Type: {type} を指定してください"
    ),
    "{found}, not the one that was named": "{found:ja}（指定された version と異なります）",
    "the graph has version {version}": "graph の version は {version} です",
    "there is no such graph yet": "この graph はまだありません",
}
