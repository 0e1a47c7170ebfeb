"""What keeps a worker from starting."""

from __future__ import annotations

TEXTS = {
    "a worker with the id {worker_id} is running; stop it or choose another --worker-id": (
        "id {worker_id} の worker が稼働中です。停止するか、別の --worker-id を指定してください"
    ),
    "a worker inside another program cannot change what that program has installed: run pyoco-worker --wheel-sync, or "
    "leave PYOCO_WHEEL_SYNC_ENABLED unset here": (
        "プログラムに組み込んだ worker は wheel をインストールできません。pyoco-worker --wheel-sync を使うか、"
        "PYOCO_WHEEL_SYNC_ENABLED を設定しないでください"
    ),
    "tasks may not run as root; name an ordinary user, for example pyoco-runner": (
        "task を root で実行できません。通常のユーザー（例: pyoco-runner）を指定してください"
    ),
    "{user} is the user of the worker itself; name another one": (
        "{user} は worker 自身のユーザーです。別のユーザーを指定してください"
    ),
    "runners cannot run as {user}: {reason}": "runner を {user} として起動できません: {reason}",
    "there is no user {user} on this machine; create one, for example: useradd --system --no-create-home --shell "
    "/usr/sbin/nologin pyoco-runner": (
        "このマシンにユーザー {user} がありません。次のように作成してください: useradd --system --no-create-home --shell "
        "/usr/sbin/nologin pyoco-runner"
    ),
    "no process of {user} has started within {count} s": ("{user} のプロセスが {count} 秒以内に起動しませんでした"),
    "a worker inside another program runs tasks as the user of that program: run pyoco-worker, or leave "
    "PYOCO_RUNNER_USER unset here": (
        "プログラムに組み込んだ worker は、そのプログラムのユーザーで task を実行します。pyoco-worker を使うか、"
        "PYOCO_RUNNER_USER を設定しないでください"
    ),
    "no runner could be started: {error}": "runner を起動できませんでした: {error:ja}",
    "the flow resolver {spec} {why}": "flow resolver {spec} {why:ja}",
    "is not of the form {form}": "は {form:ja} の形式ではありません",
    "module:function or path/to/file.py:function": "module:function か path/to/file.py:function",
    "names {name}, but {module} has no such name": "の {name} が {module} にありません",
    "is a {type}; it must be a function of the flow's name": (
        "は {type} です。flow の名前を受け取る関数を指定してください"
    ),
    "names module {name}, which is not installed and not below {folder}": (
        "の module {name} は、インストールされておらず、{folder} の下にもありません"
    ),
    "names {path}, and there is no such file": "の {path} というファイルがありません",
    "names {path}, which Python cannot load": "の {path} を Python で読み込めません",
    "cannot be imported: {error}": "を import できません: {error}",
    "the process that loads the flow resolver {spec} died ({cause}){rest}": (
        "flow resolver {spec} を読み込むプロセスが終了しました（{cause}）{rest}"
    ),
    "the flow resolver {spec} was not loaded within {count} s": (
        "flow resolver {spec} の読み込みが {count} 秒以内に終わりませんでした"
    ),
    "the flow.yaml of the run is not in its log": "run の flow.yaml がログにありません",
    "the job is not a JSON object": "job が JSON オブジェクトではありません",
    "the job is not JSON": "job が JSON ではありません",
    "run_id is not a UUID": "run_id が UUID ではありません",
    "retention has removed the run": "run は保持期間が過ぎて削除されました",
}
