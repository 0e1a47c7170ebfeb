"""Why a broker refuses a program that starts: what a repeat would not change, each with what to do about it.

The server's codes are those of `server/errors.json` of nats-server.
"""

from __future__ import annotations

import re
import ssl

from pyoco_server.adapters.jetstream.client import ServerWithoutTls
from pyoco_server.adapters.jetstream.failures import RequestRejected
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import BrokerRefused

NOT_CLUSTERED = 10074
NO_PEERS = 10005
TOO_LITTLE_STORAGE = 10047
DISABLED = (10039, 10076)
# Of the account or the server: streams, consumers, storage, memory, a stream without the required maximum.
LIMITS = (10002, 10023, 10026, 10027, 10028, 10113, 10120)
_NOT_PERMITTED = re.compile(r"permissions violation for (publish|subscription) to \"?([^\"]+)", re.IGNORECASE)


class LoginRefused(BrokerRefused):
    """nats refuses the login"""

    message_ja = "NATSにログインできません"
    hint = "Correct PYOCO_NATS_TOKEN, PYOCO_NATS_CREDS_FILE, or the user and password in the URL."
    hint_ja = "PYOCO_NATS_TOKEN、PYOCO_NATS_CREDS_FILE、または URL のユーザー名とパスワードを修正してください。"


class CertificateRefused(BrokerRefused):
    """the certificate of nats is not trusted"""

    message_ja = "NATSの証明書を信頼できません"
    hint = "Set PYOCO_NATS_TLS_CA_FILE to the authority that signed it, and use a host name that it contains."
    hint_ja = "署名した認証局のファイルを PYOCO_NATS_TLS_CA_FILE に設定し、証明書にあるホスト名を使ってください。"


class TlsMissing(BrokerRefused):
    """nats does not require TLS"""

    message_ja = "NATSがTLSを要求していません"
    hint = "Turn TLS on in nats-server, or use nats:// and no PYOCO_NATS_TLS_CA_FILE; nothing secret was sent."
    hint_ja = (
        "nats-server で TLS を有効にするか、nats:// を使い PYOCO_NATS_TLS_CA_FILE を外してください。"
        "認証情報は送信していません。"
    )


class JetStreamDisabled(BrokerRefused):
    """nats runs without JetStream"""

    message_ja = "NATSのJetStreamが無効です"
    hint = "Start nats-server with -js and enable JetStream for this account; after a full disk, restart it."
    hint_ja = (
        "nats-server を -js で起動し、このアカウントで JetStream を有効にしてください。"
        "ディスクが満杯になった後は再起動が必要です。"
    )


class TooFewServers(BrokerRefused):
    """nats has too few servers for the replicas"""

    message_ja = "複製の数に対してNATSのサーバーが足りません"
    hint = "Set PYOCO_NATS_REPLICAS to 1 (3 in a cluster of three), or let more servers join the cluster."
    hint_ja = "PYOCO_NATS_REPLICAS を 1（3 台のクラスターなら 3）にするか、クラスターにサーバーを追加してください。"


class NotPermitted(BrokerRefused):
    """nats does not permit this user what is needed"""

    message_ja = "NATSのユーザーに権限がありません"
    hint = "Give this user the permissions in nats-server: $JS.>, $KV.>, $O.>, pyoco.> and _INBOX.>."
    hint_ja = "nats-server でこのユーザーに権限（$JS.>、$KV.>、$O.>、pyoco.>、_INBOX.>）を与えてください。"


class LimitReached(BrokerRefused):
    """nats has reached a limit"""

    message_ja = "NATSの上限に達しています"
    hint = "Raise the limit in nats-server (max_file_store, or those of the account), or remove what is not needed."
    hint_ja = "nats-server の上限（max_file_store、アカウントの上限）を上げるか、不要なものを削除してください。"


def of_connection(cause: BaseException, config: NatsBackendConfig) -> BrokerRefused | None:
    """The refusal that kept a connection from being made; None if a repeat may help."""
    url = config.nats_url_without_secrets
    if isinstance(cause, ServerWithoutTls):
        return TlsMissing(f"nats at {url} does not require TLS, so the login would be sent in clear")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return CertificateRefused(f"the certificate of nats at {url} is not trusted: {cause.verify_message}")
    if "authorization" in str(cause).lower():
        return LoginRefused(f"nats at {url} refuses the login: {_words(cause)}")
    return None


def of_stream(rejected: RequestRejected, name: str, config: NatsBackendConfig, max_bytes: int) -> BrokerRefused | None:
    """The refusal to create a stream; None if it may be another one's, or temporary."""
    why, replicas = rejected.facts["description"], config.nats_replicas
    match rejected.err_code:
        case code if code in DISABLED:
            return JetStreamDisabled(f"nats refuses JetStream: {why}")
        case code if code == NOT_CLUSTERED:
            return TooFewServers(f"PYOCO_NATS_REPLICAS is {replicas}, but nats is 1 server and no cluster")
        case code if code == NO_PEERS:
            return TooFewServers(f"PYOCO_NATS_REPLICAS is {replicas}, more than servers of the cluster can take: {why}")
        case code if code == TOO_LITTLE_STORAGE and max_bytes > 0:
            return LimitReached(
                f"the broker has too little storage for the stream {name!r} (it reserves {max_bytes} bytes); "
                "free some disk space, or lower PYOCO_DLQ_MAX_BYTES"
            )
        case code if code == TOO_LITTLE_STORAGE or code in LIMITS:
            return LimitReached(f"nats refuses the stream {name!r}: {why}")
    return None


def of_silence(last_error: Exception | None) -> NotPermitted | None:
    """The refusal behind an unanswered request: the server reports a missing permission apart from it."""
    found = _NOT_PERMITTED.search(str(last_error))
    if found is None:
        return None
    verb = "publish" if found[1].lower() == "publish" else "subscribe"
    return NotPermitted(f"nats does not permit this user to {verb} to {found[2]}")


def _words(cause: BaseException) -> str:
    return str(cause).removeprefix("nats: ").strip("'")
