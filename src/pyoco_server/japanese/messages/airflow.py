"""Airflow as the engine of rechecks."""

from __future__ import annotations

TEXTS = {
    "Airflow cannot be reached: {reason}": "Airflow に接続できません: {reason:ja}",
    "Airflow did not answer in time": "Airflow が時間内に応答しませんでした",
    "Airflow answers with an error ({status})": "Airflow がエラーを返しました（{status}）",
    "Airflow answered {status} to {endpoint}": "Airflow が {endpoint} に {status} を返しました",
    "Airflow's answer to {endpoint} cannot be read": "{endpoint} に対する Airflow の応答を読み取れません",
    "Airflow's answer to login cannot be read": "login に対する Airflow の応答を読み取れません",
    "Airflow's answer to {endpoint} has more than {most} bytes": (
        "{endpoint} に対する Airflow の応答が {most} バイトを超えています"
    ),
    "the {part} of Airflow is not healthy": "Airflow の {part} が正常ではありません",
    "Airflow refuses user and password of PYOCO_AIRFLOW_USER ({status})": (
        "PYOCO_AIRFLOW_USER のユーザーとパスワードが Airflow に拒否されました（{status}）"
    ),
    "Airflow refuses {endpoint} to the user of PYOCO_AIRFLOW_USER with a new token ({status})": (
        "PYOCO_AIRFLOW_USER のユーザーには {endpoint} が許可されていません（新しい token で {status}）"
    ),
    "PYOCO_AIRFLOW_URL does not lead to Airflow 3: its login answers {status}": (
        "PYOCO_AIRFLOW_URL の先は Airflow 3 ではありません（login の応答が {status}）"
    ),
    "PYOCO_AIRFLOW_URL leads to a redirect ({status}), which is not followed": (
        "PYOCO_AIRFLOW_URL の先がリダイレクト（{status}）です。リダイレクトには従いません"
    ),
    "PYOCO_AIRFLOW_PASSWORD_FILE cannot be read: {reason}": (
        "PYOCO_AIRFLOW_PASSWORD_FILE を読み取れません: {reason:ja}"
    ),
    "it is no UTF-8 text": "UTF-8 のテキストではありません",
    "PYOCO_AIRFLOW_PASSWORD_FILE is an empty file": "PYOCO_AIRFLOW_PASSWORD_FILE のファイルが空です",
    "PYOCO_AIRFLOW_CA_FILE cannot be read: {reason}": "PYOCO_AIRFLOW_CA_FILE を読み取れません: {reason:ja}",
    "Airflow has no DAG {dag}; put it into its dags folder, or set PYOCO_AIRFLOW_DAG_ID": (
        "Airflow に DAG {dag} がありません。dags フォルダに置くか、PYOCO_AIRFLOW_DAG_ID を設定してください"
    ),
    "the DAG {dag} is paused in Airflow; unpause it there": (
        "DAG {dag} は Airflow で一時停止されています。Airflow で再開してください"
    ),
    "the DAG {dag} cannot be imported; Airflow shows the errors": (
        "DAG {dag} を import できません。エラーは Airflow で確認してください"
    ),
    # Settings
    "PYOCO_AIRFLOW_PASSWORD and PYOCO_AIRFLOW_PASSWORD_FILE are both set; accepted: one of them": (
        "PYOCO_AIRFLOW_PASSWORD と PYOCO_AIRFLOW_PASSWORD_FILE は、どちらか一方だけを設定してください"
    ),
    "PYOCO_AIRFLOW_CA_FILE is set and needs an address with https in PYOCO_AIRFLOW_URL": (
        "PYOCO_AIRFLOW_CA_FILE を使うには、PYOCO_AIRFLOW_URL に https のアドレスが必要です"
    ),
    "PYOCO_AIRFLOW_CA_FILE is set and needs PYOCO_AIRFLOW_URL, which is not set": (
        "PYOCO_AIRFLOW_CA_FILE を使うには、PYOCO_AIRFLOW_URL の設定が必要です"
    ),
    "{given} is set and needs {variable}, which is not set": "{given} を使うには、{variable:ja} の設定が必要です",
    "PYOCO_AIRFLOW_PASSWORD or PYOCO_AIRFLOW_PASSWORD_FILE": ("PYOCO_AIRFLOW_PASSWORD か PYOCO_AIRFLOW_PASSWORD_FILE"),
    "http://host:port or https://host:port, without user and password": (
        "http://host:port か https://host:port（ユーザーとパスワードなし）"
    ),
    "letters, digits, _ . and -": "英数字と _ . -",
}
