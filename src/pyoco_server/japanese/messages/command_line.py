"""Command lines: what the commands refuse."""

from __future__ import annotations

TEXTS = {
    # All programs
    "the command line is not UTF-8": "コマンドラインが UTF-8 ではありません",
    "{what} exclude each other": "{what} は同時に指定できません",
    # Params and files
    "--param {text} is not key=value": "--param {text} は key=value の形式ではありません",
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
