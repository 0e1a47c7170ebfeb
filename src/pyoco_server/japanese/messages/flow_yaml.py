"""What is wrong with a flow.yaml: YAML, keys, tasks, graph language."""

from __future__ import annotations

TEXTS = {
    "flow.yaml has {size} bytes; at most {limit} are accepted": "flow.yaml は {size} バイトあります。上限は {limit} です",
    "flow.yaml has more than {limit} bytes": "flow.yaml が {limit} バイトを超えています",
    # YAML
    "the file is empty": "ファイルが空です",
    "the file is not UTF-8 text": "ファイルが UTF-8 のテキストではありません",
    "not YAML: {reason}": "YAML として読み取れません: {reason}",
    "the file holds characters that YAML does not allow": "YAML で使えない文字があります",
    "nested deeper than {count} levels": "入れ子が {count} 段を超えています",
    "nested deeper than {count} levels, or an alias refers to itself": (
        "入れ子が {count} 段を超えているか、エイリアスが自身を参照しています"
    ),
    "more than {count} values": "値が {count} 個を超えています",
    "more than {count} aliases; write the values out": (
        "エイリアスが {count} 個を超えています。値を直接書いてください"
    ),
    "a second document begins here; one file is one document": (
        "ここから 2 つ目の文書が始まっています。1 ファイルには 1 文書だけを書いてください"
    ),
    "more values than are accepted, with its aliases written out": "エイリアスを展開すると、値の数が上限を超えます",
    "aliases of too much text; write it out": "エイリアスの文字数が多すぎます。直接書いてください",
    "the tag {tag} is not known here": "タグ {tag} は使えません",
    "{text} is not what its tag {tag} says": "{text} はタグ {tag} の値ではありません",
    "a key must be text, not a list or a mapping": "キーは文字列にしてください（リストやマッピングは使えません）",
    "a key must be text, and YAML reads this one as {value}; put it in quotes": (
        "キーは文字列にしてください。YAML では {value} と解釈されるため、引用符で囲んでください"
    ),
    "the key {name} stands twice in one mapping": "同じマッピングにキー {name} が 2 回あります",
    "{text} is a date or a time to YAML; put it in quotes to pass it as text": (
        "{text} は YAML では日付・時刻と解釈されます。文字列にする場合は引用符で囲んでください"
    ),
    "{text} would merge another mapping into this one; write the keys out": (
        "{text} は別のマッピングを取り込みます。キーを直接書いてください"
    ),
    "{text} has a meaning of its own in YAML; put it in quotes": (
        "{text} は YAML で特別な意味を持ちます。引用符で囲んでください"
    ),
    "half of a surrogate pair is no character": "サロゲートペアの片方だけでは文字になりません",
    "{text} has more than 64 bits and would be rounded; put it in quotes": (
        "{text} は 64 ビットを超え、丸められます。引用符で囲んでください"
    ),
    "{text} is not a number that can be kept; put it in quotes to pass it as text": (
        "{text} は扱えない数値です。文字列にする場合は引用符で囲んでください"
    ),
    "{text} is a number in base 60 to YAML; put it in quotes to pass it as text": (
        "{text} は YAML では 60 進数と解釈されます。文字列にする場合は引用符で囲んでください"
    ),
    "{text} has more digits than can be kept; put it in quotes to pass it as text": (
        "{text} は桁数が多すぎます。文字列にする場合は引用符で囲んでください"
    ),
    # Keys and tasks
    "flow.yaml: {what}": "flow.yaml: {what:ja}",
    "flow.yaml, line {line}: {what}": "flow.yaml の {line} 行目: {what:ja}",
    "version {version} is not known; known is {known}": "version {version} は使えません。使えるのは {known} です",
    "'flow:' with the text 'graph:' below it is missing": "'flow:' とその下の 'graph:'（文字列）がありません",
    "'flows' is not accepted: one file is one flow; write 'flow:' with 'graph:' below it": (
        "'flows' は使えません。1 ファイルに書けるのは 1 flow です。'flow:' とその下に 'graph:' を書いてください"
    ),
    "'discovery' is not accepted: a file may not choose what a worker imports by itself; name each task's 'callable' "
    "or 'use'": (
        "'discovery' は使えません。worker が import するものをファイルから選ぶことはできません。"
        "task ごとに 'callable' か 'use' を書いてください"
    ),
    "unknown key {name} in {where}; known are {known}": (
        "{where:ja} に未知のキー {name} があります。使えるキー: {known}"
    ),
    "{where} must be a mapping (key: value)": "{where:ja} はマッピング（key: value）にしてください",
    "the file": "ファイル",
    "{where} must be a list of texts": "{where} は文字列のリストにしてください",
    "tasks must be a mapping with at least one task": "tasks は 1 つ以上の task を持つマッピングにしてください",
    "the name of a task has 1 to {count} characters": "task の名前は 1～{count} 文字です",
    "{key} of task {task} must be a text": "task {task} の {key} は文字列にしてください",
    "task {task} needs either 'callable' or 'use'": "task {task} には 'callable' か 'use' のどちらか一方が必要です",
    "task {task}: the callable {name} {fault}": "task {task} の callable {name} {fault:ja}",
    "is not of the form package.module:function (at most {count} characters)": (
        "は package.module:function の形式（{count} 文字以内）ではありません"
    ),
    "is of Python itself or of this server; a file may call it only if PYOCO_CALLABLE_ALLOW names it": (
        "は Python 自身のもの、またはこのサーバーに付属するものです。PYOCO_CALLABLE_ALLOW に書いた場合だけ呼び出せます"
    ),
    "is not among those that may be called here (PYOCO_CALLABLE_ALLOW)": (
        "は、ここで呼び出せるもの（PYOCO_CALLABLE_ALLOW）に含まれていません"
    ),
    "{what}; the forms are {forms}": "{what:ja}。使える形式: {forms:ja}",
    "input {name} of task {task} is {value}, which refers to nothing": (
        "task {task} の input {name} の値 {value} は何も参照していません"
    ),
    "$node.<node>.output, $ctx.params.<key> and $env.<NAME>; no other text may begin with $": (
        "$node.<node>.output、$ctx.params.<key>、$env.<NAME>（ほかの文字列は $ で始められません）"
    ),
    "pipe {name} must be a text": "pipe {name} は文字列にしてください",
    # The graph language
    "{where}, line {line} of it: {what}": "{where} の {line} 行目: {what:ja}",
    "more than {count} words and marks": "語と記号が {count} 個を超えています",
    "more than {count} nodes": "node が {count} 個を超えています",
    "the name {name} has more than {count} characters": "名前 {name} が {count} 文字を超えています",
    "task {task} is used twice and would wait for itself; rename one, as in again: {task_again}": (
        "task {task} が 2 回使われ、自身を待つことになります。一方の名前を変えてください（例: again: {task_again}）"
    ),
    "an expression has more than {count} characters": "式が {count} 文字を超えています",
    "an expression is nested too deeply": "式の入れ子が深すぎます",
    "with its pipes written out, the graph has more than {count} characters": (
        "pipe を展開すると、graph が {count} 文字を超えます"
    ),
    "with its pipes written out, the graph has more than {count} terms": "pipe を展開すると、graph の項が {count} 個を超えます",
    "blocks and pipes are nested deeper than {count} levels": "ブロックと pipe の入れ子が {count} 段を超えています",
    "there is no pipe {name}": "pipe {name} はありません",
    "pipes refer to each other in a cycle: {names}": "pipe が循環参照しています: {names}",
    "nested too deeply": "入れ子が深すぎます",
    "{block}(...) takes {known}, not {found} at position {position}": (
        "{block}(...) に {found} は使えません（位置 {position}）。使えるのは {known} です"
    ),
    "{name} is defined twice at position {position}": "{name} が 2 回定義されています（位置 {position}）",
}
