"""Messages of the operating system and of httpx about connections and files."""

from __future__ import annotations

TEXTS = {
    "[Errno {number}] Connection refused": "接続が拒否されました",
    "All connection attempts failed": "すべての接続先に失敗しました",
    "[Errno {number}] Name or service not known": "ホスト名を解決できません",
    "[Errno {number}] nodename nor servname provided, or not known": "ホスト名を解決できません",
    "[Errno {number}] Temporary failure in name resolution": "ホスト名を一時的に解決できません",
    "[Errno {number}] No route to host": "ホストへの経路がありません",
    "[Errno {number}] Network is unreachable": "ネットワークに到達できません",
    "[Errno {number}] Connection reset by peer": "相手が接続を切断しました",
    "Server disconnected without sending a response.": "サーバーが応答せずに切断しました",
    "timed out": "時間切れです",
    "ConnectTimeout": "接続が時間切れになりました",
    "ReadTimeout": "応答の待機が時間切れになりました",
    "WriteTimeout": "送信が時間切れになりました",
    "PoolTimeout": "空き接続の待機が時間切れになりました",
    "ConnectError": "接続できません",
    "ReadError": "応答の受信中に接続が切れました",
    "WriteError": "送信中に接続が切れました",
    "RemoteProtocolError": "応答が HTTP として不正です",
    "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {why}": "証明書を検証できません: {why}",
    "No such file or directory": "ファイルかフォルダがありません",
    "Permission denied": "権限がありません",
    "Is a directory": "フォルダです",
    "Not a directory": "フォルダではありません",
    "File exists": "すでに存在します",
    "No space left on device": "ディスクの空きがありません",
    "Address already in use": "アドレスは使用中です",
    "Cannot assign requested address": "このマシンのアドレスではありません",
}
