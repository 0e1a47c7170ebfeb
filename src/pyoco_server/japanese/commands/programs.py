"""`--help` of `pyoco-server`, `pyoco-worker` and `pyoco-server-admin`, and what all help pages share."""

from __future__ import annotations

TEXTS = {
    # All programs
    "Usage: ": "使い方: ",
    "Options": "オプション",
    "Arguments": "引数",
    "Commands": "コマンド",
    "Example: {command}": "例: {command}",
    "required": "必須",
    "default: {value}": "既定値: {value}",
    "Show this message and exit.": "このメッセージを表示して終了します。",
    "Print the version and exit.": "バージョンを表示して終了します。",
    "Install completion for the current shell.": "現在のシェルに補完を設定します。",
    "Show completion for the current shell, to copy it or customize the installation.": (
        "現在のシェル用の補完スクリプトを表示します。"
    ),
    "Where NATS is (PYOCO_NATS_URL).": "NATS のアドレス（PYOCO_NATS_URL）。",
    "What to print.": "出力形式。",
    # pyoco-server
    "Run Python workflows on a fleet of workers.": "Python のワークフローを複数の worker で実行します。",
    "Start NATS (embedded, unless one is named), the HTTP gateway and, with --with-worker, a worker.": (
        "NATS（指定がなければ組み込み）と HTTP Gateway を起動します。--with-worker で worker も起動します。"
    ),
    "Address to listen on.": "待ち受けるアドレス。",
    "Port to listen on; 0 takes a free one.": "待ち受けるポート。0 は空きポート。",
    "Folder of the embedded NATS. Else PYOCO_DATA_DIR, .pyoco here, or the user's.": (
        "組み込み NATS のフォルダ。省略時は PYOCO_DATA_DIR、現在のフォルダの .pyoco、ユーザーのフォルダの順に使います。"
    ),
    "Use this NATS instead of an embedded one.": "組み込みの代わりに使う NATS。",
    "Even if PYOCO_NATS_URL is set.": "PYOCO_NATS_URL があっても組み込み NATS を使います。",
    "Address of the embedded NATS.": "組み込み NATS のアドレス。",
    "Its port; 0: the previous one, or a free one.": "組み込み NATS のポート。0 は前回のポートか空きポート。",
    "Its monitoring port; none by default.": "組み込み NATS の監視用ポート。既定ではありません。",
    "Also start a worker.": "worker も起動します。",
    "Name of that worker in the fleet.": "その worker の名前。",
    "Which runs it takes: tags joined by commas.": "worker が受け取る run の tag。カンマ区切り。",
    "How many at a time.": "同時に実行する数。",
    "Its flows: module:func or path.py:func, a function of the flow's name. None: flow.yaml only.": (
        "worker の flow。flow 名から flow を返す関数（module:func か path.py:func）。なければ flow.yaml だけ。"
    ),
    # pyoco-worker
    "Take runs from the queue and run them.": "キューから run を受け取り、実行します。",
    "Data folder of a local `pyoco-server up`: finds its NATS.": (
        "同じマシンの `pyoco-server up` のデータフォルダ。その NATS に接続します。"
    ),
    "Which runs to take: tags joined by commas.": "受け取る run の tag。カンマ区切り。",
    "Name in the fleet; host and pid by default.": "worker の名前。既定はホスト名と pid。",
    "Runs at a time; CPUs by default.": "同時に実行する run の数。既定は CPU 数。",
    "Function from a flow's name to the flow: module:func or path.py:func. None: flow.yaml only.": (
        "flow 名から flow を返す関数。module:func か path.py:func。なければ flow.yaml だけ。"
    ),
    "Flows to announce, joined by commas; by default the resolver's.": (
        "公表する flow の名前。カンマ区切り。既定は resolver の flow。"
    ),
    "Language of the dashboard. Else PYOCO_DASHBOARD_LANG.": (
        "dashboard の言語。指定がなければ PYOCO_DASHBOARD_LANG に従います。"
    ),
    "Load saved files of flows while it runs.": "実行中に保存された flow のファイルを読み込みます。",
    "Load saved files of flows; it does unless PYOCO_CODE_RELOAD=0.": (
        "保存された flow のファイルを読み込みます。PYOCO_CODE_RELOAD=0 でなければ読み込みます。"
    ),
    "Install wheels for these tags.": "これらの tag 用の wheel をインストールします。",
    "Install folder; workers of a machine may share it.": "インストール先。同じマシンの worker で共有できます。",
    "How often to look for new ones.": "新しい wheel を確認する間隔（秒）。",
    "Longest installation.": "インストールの制限時間（秒）。",
    # pyoco-server-admin
    "Manage access to the gateway, and its strategies.": "Gateway へのアクセスと strategy を管理します。",
    "Strategies of the PDCA API.": "PDCA API の strategy を管理します。",
    "Register the strategies of a file, or replace those of the same ids. Lists rejected rows with their lines.": (
        "ファイルの strategy を登録するか、同じ id のものを置き換えます。登録できない行は行番号とともに表示します。"
    ),
    "A .csv, .yaml or .json file: id, title, instrument, enabled, tags.": (
        ".csv、.yaml、.json のファイル。項目は id、title、instrument、enabled、tags。"
    ),
    "Whose strategies they are; none where access is not controlled.": "strategy が属する tenant。アクセス制御がなければ不要です。",
    "Only check the file.": "ファイルの確認だけを行います。",
    "API keys of the gateway.": "Gateway の API key を管理します。",
    "Create a key and print it. It is never shown again: only its digest is stored.": (
        "key を作成して表示します。保存されるのはダイジェストだけで、再表示はできません。"
    ),
    "Tenant whose runs the key submits and reads.": "key が投入・参照する run の tenant。",
    "A name for people.": "人が見分けるための名前。",
    "What the key allows, joined by commas; `admin` is everything, for all tenants.": (
        "key に許可する scope。カンマ区切り。`admin` は全 tenant の全操作です。"
    ),
    "Lifetime: 30m, 12h, 90d, 52w.": "有効期間。30m、12h、90d、52w など。",
    "End: 2030-01-31 or 2030-01-31T12:00:00Z.": "有効期限。2030-01-31 か 2030-01-31T12:00:00Z。",
    "Data folder of a local `pyoco-server up`.": "同じマシンの `pyoco-server up` のデータフォルダ。",
    "List the keys, oldest first, without their secrets.": "key を古い順に一覧表示します。秘密の部分は表示しません。",
    "Only the keys of this tenant.": "この tenant の key だけ。",
    "Revoked and expired keys too.": "失効・期限切れの key も含めます。",
    "Revoke a key. Every gateway refuses it within a second.": (
        "key を失効させます。1 秒以内にすべての Gateway で使えなくなります。"
    ),
    "The key's id, as `list` shows it.": "key の id（`list` で表示されるもの）。",
}
