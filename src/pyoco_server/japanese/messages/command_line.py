"""Command lines: what the commands refuse."""

from __future__ import annotations

TEXTS = {
    # All programs
    "the command line is not UTF-8": "コマンドラインが UTF-8 ではありません",
    "{what} exclude each other": "{what} は同時に指定できません",
    "--follow shows all lines; {option} selects from those stored": (
        "--follow はすべての行を表示します。{option} は保存済みの行から選びます"
    ),
    # Params and files
    "the word {text} is not key=value": "引数 {text} は key=value の形式ではありません",
    "--param {text} is not key=value": "--param {text} は key=value の形式ではありません",
    "no flow is given": "flow が指定されていません",
    "the flow is given twice: {flow} and {option} {other}": (
        "flow が 2 回指定されています: {flow} と {option} {other}"
    ),
    "--params is {kind}, not a JSON object": "--params は JSON オブジェクトにしてください（現在は{kind:ja}）",
    "--params is not JSON: {error}": "--params が JSON ではありません: {error}",
    "--params-file {path} holds {kind}, not an object": (
        "--params-file {path} の内容はオブジェクトにしてください（現在は{kind:ja}）"
    ),
    "--params-file {path} is not UTF-8": "--params-file {path} が UTF-8 ではありません",
    "--params-file {path}: {error}": "--params-file {path}: {error:ja}",
    "a list": "配列",
    "a text": "文字列",
    "true or false": "真偽値",
    "a number": "数値",
    "the key {name} is given twice": "キー {name} が 2 回指定されています",
    "{name} is not JSON": "{name} は JSON ではありません",
    "{what} is larger than {size} bytes": "{what} は {size} バイトを超えています",
    "the params cannot be sent: {error}": "params を送信できません: {error:ja}",
    "{file}: not a JSON object": "{file}: JSON オブジェクトではありません",
    "{file}: not JSON: {error}": "{file}: JSON ではありません: {error}",
    "{files} would be overwritten; --force replaces them": "{files} が上書きされます。--force で置き換えます",
    # Ids
    "two different runs are given: {one} and --run-id {other}": (
        "異なる run が 2 つ指定されています: {one} と --run-id {other}"
    ),
    "no run is given": "run が指定されていません",
    "no listed run has an id that begins with {text}": "id が {text} で始まる run は一覧にありません",
    "several runs have an id that begins with {text}: give more of it": (
        "id が {text} で始まる run が複数あります。続きも指定してください"
    ),
    "{last} is the last run that was submitted from here to {url}; there is none": (
        "{last} はここから {url} へ最後に投入した run ですが、まだありません"
    ),
    # Cancel
    "{option} and a selection of fields exclude each other": "{option} と項目の選択は同時に指定できません",
    "ids and filters exclude each other": "id と条件は同時に指定できません",
    "runs that are {status} cannot be cancelled": "{status} の run は取り消せません",
    "this would cancel {count} runs ({flows}); --yes cancels them": (
        "{count} 件の run（{flows}）が取り消されます。実行するには --yes を付けてください"
    ),
    # Times, fields and profiles
    "{option}: {text} is no time: write {forms}": ("{option}: {text} は時刻ではありません。書式: {forms:ja}"),
    "1h (also s, m, d, w) ago, 2026-11-19, 2026-11-19T09:00:00+09:00, today or yesterday": (
        "1h（1 時間前。s、m、d、w も可）、2026-11-19、2026-11-19T09:00:00+09:00、today、yesterday"
    ),
    "--json needs the names of fields, joined by commas": "--json には項目名をカンマ区切りで指定してください",
    "--template {text} names no field": "--template {text} に項目名がありません",
    "there is no field {name}; there are: {fields}": "項目 {name} はありません。使える項目: {fields}",
    "there is no profile {name}; there are: {profiles}": "profile {name} はありません。あるもの: {profiles}",
    "the profile {name} has no {key}": "profile {name} に {key} はありません",
    "{name} is not the name of a profile: letters, digits, - and _": (
        "{name} は profile の名前ではありません（英数字と - と _）"
    ),
    "{key} is one of: {choices}": "{key} は次のいずれかです: {choices}",
    "{key} of the profile {name} is one of: {choices}": "profile {name} の {key} は次のいずれかです: {choices}",
    "profiles are tables of texts": "profiles は文字列のテーブルにしてください",
    "not UTF-8": "UTF-8 ではありません",
    "no value for {key} that can be stored": "{key} に保存できる値がありません",
    "the config file {path} cannot be read: {error}": "設定ファイル {path} を読めません: {error:ja}",
    "the config file {path} cannot be written: {error}": "設定ファイル {path} に書き込めません: {error}",
    "{text} is not {what}": "{text} は{what:ja}ではありません",
    "a run id": " run の id ",
    "a job id": " job の id ",
    "an execution id": " execution の id ",
    "a worker id": " worker の id ",
    "{name} is not the name of a graph": "{name} は graph の名前ではありません",
    "{text} is not a place": "{text} は位置の形式ではありません",
    "--timeout-sec needs {option}": "--timeout-sec には {option} が必要です",
    # Approvals
    "{count} nodes wait: choose one by --node": "{count} 個の node が待っています。--node で選んでください",
    "{node} does not wait; these do": "{node} は待機中ではありません。待機中の node は上のとおりです",
    "nothing waits in execution {execution_id} ({status})": (
        "execution {execution_id} に待機中の node はありません（{status}）"
    ),
    "{node} asks {question}: choose by --answer one of {choices}": (
        "{node} の質問は {question} です。--answer で次から選んでください: {choices}"
    ),
    "--reason needs --reject": "--reason には --reject が必要です",
    "--answer is not JSON: {error}": "--answer が JSON ではありません: {error}",
    # Labels, logs and wheels
    "ls takes no label": "ls にラベルは指定できません",
    "{action} needs a label": "{action} にはラベルが必要です",
    "{label} is not a label": "{label} はラベルとして使えません",
    "--text downloads the whole log; {name} selects from it": (
        "--text はログ全体を取得します。一部を選ぶ {name} とは同時に指定できません"
    ),
    "--text {file}: {reason}": "--text {file}: {reason:ja}",
    "--wheel-file: there is no file {name}": "--wheel-file: ファイル {name} がありません",
    "{name} is not the name of a wheel (*.whl)": "{name} は wheel のファイル名（*.whl）ではありません",
    "--to: there is no folder {name}": "--to: フォルダ {name} がありません",
    # pyoco-server up
    "cannot listen on {host}:{port}: {reason}; choose another --port or --host": (
        "{host}:{port} で待ち受けできません: {reason:ja}。別の --port か --host を指定してください"
    ),
    "the worker could not start; its error is above": "worker を起動できませんでした。エラーは上に表示されています",
}
