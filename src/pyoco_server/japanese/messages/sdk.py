"""What the SDK says by itself; the rest it has from the gateway."""

from __future__ import annotations

TEXTS = {
    # No answer
    "the gateway at {address} cannot be reached: {why}": "{address} の Gateway に接続できません: {why:ja}",
    "the connection to {address} broke while submitting: {why}": "投入中に {address} との接続が切れました: {why:ja}",
    "{why}, tried {count} times": "{why:ja}（{count} 回試行）",
    "the answer comes too slowly": "応答の受信が遅すぎます",
    # Hints
    "Start the gateway (pyoco-server up) and check the address.": (
        "Gateway を起動し（pyoco-server up）、アドレスを確認してください。"
    ),
    "The run may have been accepted: submit it with the same idempotency_key, or look for it (list_runs).": (
        "run は受理された可能性があります。同じ idempotency_key で再投入するか、list_runs で確認してください。"
    ),
    "The run continues; wait again, or see explain_run.": (
        "run は継続しています。再度待つか、explain_run で理由を確認してください。"
    ),
    "Check the address, and what stands between here and the gateway.": (
        "アドレスと、Gateway までの経路（プロキシなど）を確認してください。"
    ),
    "run {run_id} is {status}, not finished after {count} s": (
        "run {run_id} は {count} 秒以内に終了しませんでした（現在 {status}）"
    ),
    # Answers that did not come from a gateway
    "{reason}: {method} {url} answered with {type}": "{reason}: {method} {url} の応答は {type} でした",
    "{reason}: {method} {url} answered with {type} where a gateway's answer was expected ({error})": (
        "{reason}: {method} {url} の応答は {type} で、Gateway の応答ではありません（{error:ja}）"
    ),
    "{reason}: {method} {url} answered with {type} where a stream of events was expected": (
        "{reason}: {method} {url} の応答は {type} で、イベントのストリームではありません"
    ),
    "{reason}: {method} {url} answered with {type}, but {error}": (
        "{reason}: {method} {url} の応答は {type} ですが、{error:ja}"
    ),
    "its bytes are not those of {name}": "{name} の内容と一致しません",
    "it does not begin at byte {position}": "{position} バイト目から始まっていません",
    "the gateway gave the same cursor twice; its list has no end": (
        "Gateway が同じ cursor を 2 回返しました。一覧が終わりません"
    ),
    "expected a JSON object": "JSON オブジェクトが必要です",
    "expected a JSON array": "JSON 配列が必要です",
    "expected an empty answer": "空の応答が必要です",
    "expected a JSON object with {name}": "{name} のある JSON オブジェクトが必要です",
    "an event's data is not a JSON object": "イベントの data が JSON オブジェクトではありません",
    "an event of the stream has more than {size} bytes": "ストリームのイベントが {size} バイトを超えています",
    # Invalid arguments
    "timeout_sec must be more than 0": "timeout_sec は 0 より大きくしてください",
    "timeout must be more than 0 seconds": "timeout は 0 秒より大きくしてください",
    "the gateway's address must look like {url} or https://host/prefix": (
        "Gateway のアドレスは {url} か https://host/prefix の形式にしてください"
    ),
    "{name} must be printable ASCII without spaces at its ends, and not empty": (
        "{name} は、前後に空白のない 1 文字以上の印字可能な ASCII にしてください"
    ),
    "api_key_header must be the name of a header: letters, digits, - and _": (
        "api_key_header はヘッダー名（英数字、- と _）にしてください"
    ),
    "the wheel must be bytes, a path, or a file that can be read again (seekable)": (
        "wheel は bytes、パス、またはシーク可能なファイルで指定してください"
    ),
    "idempotency_key must be 1 to {count} printable ASCII characters without spaces at its ends": (
        "idempotency_key は、前後に空白のない 1～{count} 文字の印字可能な ASCII にしてください"
    ),
    "the file has {position} bytes and the log {size}: it is not the beginning of this log; name another file, or start "
    "over (resume=False)": (
        "ファイルは {position} バイト、ログは {size} バイトです。ファイルはこのログの先頭部分ではありません。"
        "別のファイルを指定するか、最初からやり直してください（resume=False）"
    ),
}
