"""All settings: default, meaning and accepted values; read once at the edge into a frozen object.

A field of `NatsBackendConfig` is the only definition of a setting. Its variable is `PYOCO_` plus the field's name, and
`docs/reference/settings.md` is generated from it. This module opens no connection and never shows a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from itertools import permutations
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from pyoco_server.errors import InvalidUsage

T = TypeVar("T")

# A hundred years: more than any sensible value, and far from overflowing the broker's nanoseconds.
MAX_SECONDS = 100 * 365 * 86400.0
MIB = 1024 * 1024
# A thousand a second: more from one caller is not worth counting.
MAX_PER_MIN = 60_000
WORDS_FOR_YES = ("1", "true", "yes", "on")
WORDS_FOR_NO = ("0", "false", "no", "off")
LOCAL_DATA_FOLDER = Path(".pyoco")
NATS_SCHEMES = ("nats", "tls", "ws", "wss")
# SQLite behind Airflow takes one writer, and its default pool of PostgreSQL connections gives errors at 64.
MOST_AIRFLOW_REQUESTS = 8
DOTENV_LINE = re.compile(
    r"""(?:export\s+)?(?P<key>[A-Za-z_][A-Za-z0-9_]*)\s*=
    (?:\s*(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")|(?P<bare>(?!\s*['"]).*?))
    (?:\s+\#.*)?""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Accepts(Generic[T]):
    """The accepted values of a setting: as documentation, as text from the environment, and as a value."""

    words: str
    read: Callable[[str], T]
    allows: Callable[[T], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the settings reference."""

    name: str
    variable: str
    default: Any
    accepts: Accepts[Any]
    about: str
    secret: bool

    @property
    def unit(self) -> str:
        """The unit, which the name ends with."""
        return {"sec": "s", "bytes": "bytes"}.get(self.name.rpartition("_")[2], "")


def _read_bool(text: str) -> bool:
    word = text.lower()
    if word not in WORDS_FOR_YES + WORDS_FOR_NO:
        raise ValueError(text)
    return word in WORDS_FOR_YES


def _whole(low: int, high: int | None = None) -> Accepts[int]:
    words = f"a whole number from {low}" + ("" if high is None else f" to {high}")
    return Accepts(words, int, lambda value: value >= low and (high is None or value <= high))


def _number(words: str, low: float, high: float = MAX_SECONDS) -> Accepts[float]:
    return Accepts(words, float, lambda value: low <= value <= high)  # False for NaN


def _one_of(*choices: str, read: Callable[[str], str] = str.lower) -> Accepts[str]:
    return Accepts(" | ".join(choices), read, lambda value: value in choices)


def _matching(pattern: str, words: str) -> Accepts[str]:
    compiled = re.compile(pattern, re.ASCII)
    return Accepts(words, str, lambda value: compiled.fullmatch(value) is not None)


def _are_nats_urls(value: str) -> bool:
    try:
        parts = [urlsplit(url) for url in value.split(",")]
        # Reading the port raises for an invalid one.
        return all(part.scheme in NATS_SCHEMES and part.hostname and part.port != 0 for part in parts)
    except ValueError:
        return False


def _is_http_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_address and not (parts.username or parts.password or parts.query or parts.fragment)


def _are_networks(value: str) -> bool:
    try:
        # Raises also for 10.0.0.5/8, of which one cannot say whether it means the address or the network.
        return value.strip() == "*" or all(ip_network(entry.strip()) for entry in value.split(",") if entry.strip())
    except ValueError:
        return False


ABOVE_ZERO = Accepts("a number above 0", float, lambda value: 0 < value <= MAX_SECONDS)
ZERO_OR_MORE = _number("a number from 0", 0)
# A record that expires while its request is running would let it run twice.
FROM_A_MINUTE = _number("a number from 60", 60)
# Clocks that differ by more are broken; a wide leeway would accept expired tokens.
LEEWAY = _number("a number from 0 to 600", 0, 600)
YES_OR_NO = Accepts("0 | 1 | true | false | yes | no | on | off", _read_bool, lambda value: isinstance(value, bool))
ANY_TEXT: Accepts[str] = Accepts("any text", str, lambda value: True)
PRINTABLE: Accepts[str] = Accepts("printable text", str, str.isprintable)
A_PATH: Accepts[str] = Accepts("a path", str, lambda value: "\0" not in value)
# One token of a NATS subject. Also for streams and buckets: the broker makes subjects and folders of their names.
NAME = _matching(r"[A-Za-z0-9_-]+", "letters, digits, _ and -")
A_TAG = _matching(r"[A-Za-z0-9_-]{0,64}", "at most 64 letters, digits, _ and -")
SUBJECT = _matching(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", "names joined by dots (letters, digits, _ and -)")
HOST_NAMES = _matching(
    r"(\s*(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\s*(,|$))*",
    "names joined by commas (pyoco.example.org, *.internal), without port; other than ASCII as xn--…",
)
HEADER = _matching(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "the name of an HTTP header")
NATS_URL = Accepts("nats://host:port (also tls://, ws://, wss://), several joined by commas", str, _are_nats_urls)
HTTP_ADDRESS = Accepts(
    "http://host:port or https://host:port, without user and password",
    lambda text: text.rstrip("/"),
    lambda value: not value or _is_http_address(value),
)
DAG_ID = _matching(r"[A-Za-z0-9_.-]{1,250}", "letters, digits, _ . and -")
AUTH_MODE: Accepts[str] = Accepts(
    "none | api_key | jwt | api_key,jwt",
    lambda text: ",".join(sorted(word.strip() for word in text.lower().split(","))),
    lambda value: value in ("none", "api_key", "jwt", "api_key,jwt", "jwt,api_key"),
)
FLOW_NAME, CLAIM = (
    Accepts(f"the name of a {kind}", str, lambda value: 0 < len(value) <= 256 and value.isprintable())
    for kind in ("flow", "claim")
)
ACCESS_LOG_LEVEL = _one_of("OFF", "DEBUG", "INFO", "WARNING", read=str.upper)
SHARE = _number("a number from 0 to 1", 0, 1)
ADDRESSES = Accepts("addresses and networks (10.0.0.0/8) joined by commas, or *", str, _are_networks)
LOG_LEVEL = _one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", read=str.upper)


def _setting(default: T, accepts: Accepts[T], about: str, *, secret: bool = False) -> T:
    metadata = {"accepts": accepts, "about": about, "secret": secret}
    declared: T = field(default=default, metadata=metadata)
    return declared


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NatsBackendConfig:
    """The settings of one process; created by `from_env` at the edge and immutable.

    The constructor raises `InvalidUsage` with the variable to correct unless the configuration can work.
    """

    # Broker
    nats_url: str = _setting("nats://127.0.0.1:4222", NATS_URL, "Where NATS is. User and password may stand in it.")
    nats_token: str = _setting("", ANY_TEXT, "Token to show to NATS.", secret=True)
    nats_creds_file: str = _setting("", A_PATH, "Credentials file (JWT and seed) to show to NATS.")
    nats_tls_ca_file: str = _setting("", A_PATH, "Certificates of the authority that signed the broker's certificate.")
    nats_replicas: int = _setting(1, _whole(1, 5), "Copies of every stream and bucket in a cluster.")
    nats_storage: str = _setting("file", _one_of("file", "memory"), "Where streams and buckets are kept.")
    nats_sync: str = _setting(
        "always",
        _one_of("always", "interval"),
        "The embedded broker's fsync: before each acknowledgement, or every two minutes (faster; a power cut loses "
        "acknowledged writes).",
    )
    data_dir: str = _setting(
        "",
        A_PATH,
        "Folder of the embedded broker, its log, its token and its lock, and of what runs save as artifacts. Empty: "
        "`.pyoco` where it is one already, else `pyoco-server` in XDG_DATA_HOME or ~/.local/share.",
    )
    index_path: str = _setting(
        "",
        A_PATH,
        "The gateway's SQLite index, a cache. Empty: in the data folder of the embedded broker; with another broker "
        "temporary.",
    )

    # Names of streams, buckets and subjects
    events_stream: str = _setting("PYOCO_EVENTS", NAME, "Stream of events: the truth about every run.")
    events_subject_prefix: str = _setting("pyoco.events", SUBJECT, "Subjects of events: prefix and run id.")
    stored_subject_prefix: str = _setting("pyoco.stored", SUBJECT, "Where stored events are republished for listeners.")
    work_stream: str = _setting("PYOCO_WORK", NAME, "Stream of jobs (a work queue).")
    work_subject_prefix: str = _setting("pyoco.work", SUBJECT, "Subjects of jobs: prefix and tag.")
    logs_stream: str = _setting("PYOCO_LOGS", NAME, "Stream of what runs print.")
    logs_subject_prefix: str = _setting("pyoco.logs", SUBJECT, "Subjects of log chunks: prefix and run id.")
    runs_kv_bucket: str = _setting("pyoco_runs", NAME, "Bucket of run snapshots.")
    workers_kv_bucket: str = _setting("pyoco_workers", NAME, "Bucket of worker records.")
    graphs_kv_bucket: str = _setting("pyoco_graphs", NAME, "Bucket of graphs.")
    strategies_kv_bucket: str = _setting("pyoco_strategies", NAME, "Bucket of strategies.")
    default_tag: str = _setting("default", NAME, "Tag of a run that names none, and of a worker that names none.")

    # Runs
    run_retention_sec: float = _setting(
        2_592_000.0, ZERO_OR_MORE, "Finished runs, their events and logs leave after this. 0 keeps them."
    )
    max_run_snapshot_bytes: int = _setting(
        262_144, _whole(1024), "Largest snapshot; task_records are dropped first, tasks never."
    )
    workflow_yaml_max_bytes: int = _setting(262_144, _whole(1), "Largest flow.yaml accepted.")
    max_run_log_bytes: int = _setting(
        64 * MIB,
        _whole(1024),
        "Most bytes kept of what one run prints; beyond it lines are dropped, the last ones excepted.",
    )
    callable_allow: str = _setting(
        "",
        ANY_TEXT,
        "Which callables the tasks of a flow.yaml may name: patterns joined by commas (tasks:*, team.*:*). Empty: all, "
        "but those of Python itself and of this server, which a pattern has to name (textwrap:dedent).",
    )
    cancel_grace_period_sec: float = _setting(
        30.0, ZERO_OR_MORE, "How long a cancelled run may take to stop by itself before its runner is killed."
    )

    # Workers
    run_heartbeat_interval_sec: float = _setting(1.0, ABOVE_ZERO, "How often a running run shows life.")
    worker_heartbeat_interval_sec: float = _setting(5.0, ABOVE_ZERO, "How often a worker shows life.")
    workers_kv_ttl_sec: float = _setting(15.0, ABOVE_ZERO, "Silence after which worker_alive is false.")
    worker_disconnect_timeout_sec: float = _setting(
        20.0, ABOVE_ZERO, "Silence after which a worker is shown as DISCONNECTED."
    )
    worker_stop_grace_period_sec: float = _setting(
        10.0, ZERO_OR_MORE, "How long a worker that stops lets its runs finish before it hands them back."
    )
    worker_flows: str = _setting(
        "", PRINTABLE, "Flows that a worker announces: names joined by commas. Empty: those its resolver says it has."
    )
    runner_isolation: str = _setting(
        "tenant",
        _one_of("shared", "tenant", "run"),
        "What a runner serves one after the other: any runs, those of one tenant, or one run. Without access control "
        "all runs are of one tenant.",
    )
    runner_user: str = _setting(
        "",
        PRINTABLE,
        "User (name or number) that tasks run as, so that they cannot read what the worker reads. Needs root, or the "
        "capabilities CAP_SETUID, CAP_SETGID and CAP_KILL. Empty: the worker's own.",
    )

    secret_params: str = _setting(
        "*password*,*passwd*,*passphrase*,*secret*,*token*,*api_key*,*apikey*,*credential*",
        ANY_TEXT,
        "Params whose values a worker removes from errors, tracebacks and dead letters: patterns of names, joined by "
        "commas. `-` removes none.",
    )
    code_reload: bool = _setting(
        False,
        YES_OR_NO,
        "Whether a worker loads files of its flows that are saved while it runs. Otherwise it serves the version that "
        "it started with. `pyoco-server up` loads them unless this is set.",
    )

    # Job consumers (an existing consumer keeps what it was made with)
    consumer_ack_wait_sec: float = _setting(30.0, ABOVE_ZERO, "AckWait: silence before a job is redelivered.")
    consumer_max_deliver: int = _setting(20, _whole(1), "MaxDeliver: attempts before a job is given up.")
    consumer_max_ack_pending: int = _setting(200, _whole(1), "MaxAckPending: jobs of one tag in hand at a time.")
    ack_progress_interval_sec: float = _setting(
        10.0, ABOVE_ZERO, "How often a worker tells the queue that it is still busy; must be below AckWait."
    )

    # Dead letters
    dlq_stream: str = _setting("PYOCO_DLQ", NAME, "Stream of dead letters, for diagnosis.")
    dlq_subject_prefix: str = _setting("pyoco.dlq", SUBJECT, "Subjects of dead letters: prefix and tag.")
    dlq_publish_execution_error: bool = _setting(True, YES_OR_NO, "Whether a failed run leaves a dead letter.")
    dlq_max_age_sec: float = _setting(604_800.0, ZERO_OR_MORE, "Dead letters leave after this. 0 keeps them.")
    dlq_max_msgs: int = _setting(100_000, _whole(0), "Most dead letters kept. 0: no limit.")
    dlq_max_bytes: int = _setting(536_870_912, _whole(0), "Most bytes of dead letters kept. 0: no limit.")

    # HTTP
    http_max_body_bytes: int = _setting(MIB, _whole(1), "Largest request body accepted (wheels excepted).")
    http_allowed_hosts: str = _setting(
        "",
        HOST_NAMES,
        "Names by which the gateway may be called: names joined by commas; `*.` in front of one stands for all below "
        "it. `localhost` and IP addresses always work.",
    )
    http_max_watchers: int = _setting(
        5000, _whole(0), "Most streams open at a time: of runs, events and logs, and WebSockets."
    )
    http_max_streams_per_caller: int = _setting(
        0,
        _whole(0),
        "Most streams of a caller at one gateway: an API key, the subject of a token, else an address. 0: as many as "
        "leave room for other callers and tenants.",
    )
    http_watch_heartbeat_sec: float = _setting(15.0, ABOVE_ZERO, "How often the stream of a run shows life.")
    jobs_default_flow: str = _setting("main", FLOW_NAME, "Flow of a job that names none (POST /jobs).")
    http_auth_mode: str = _setting(
        "none", AUTH_MODE, "Who may call: everybody, holders of an API key, of a bearer token (JWT), or of either."
    )
    http_api_key_header: str = _setting("X-API-Key", HEADER, "Request header that carries the API key.")
    auth_kv_bucket: str = _setting("pyoco_auth", NAME, "Bucket of API key records; keys are never stored in clear.")
    auth_pepper: str = _setting("", ANY_TEXT, "Secret mixed into the hash of API keys.", secret=True)
    tickets_kv_bucket: str = _setting("pyoco_tickets", NAME, "Bucket of tickets for WebSockets; never in clear.")
    jwt_issuer: str = _setting("", ANY_TEXT, "The issuer (iss) whose tokens are believed.")
    jwt_audience: str = _setting(
        "",
        ANY_TEXT,
        "The audiences (aud) of which a token must name one, joined by commas. If `pdca` or `pdca.gui` is among them, "
        "`/pdca` needs a token for the first and `/gui` one for the second.",
    )
    jwt_jwks_file: str = _setting("", A_PATH, "Public keys of the issuer as a JWKS; read again when the file changes.")
    jwt_pem_file: str = _setting("", A_PATH, "The one public key of the issuer as PEM; read again when it changes.")
    jwt_leeway_sec: float = _setting(30.0, LEEWAY, "How far the clocks of issuer and gateway may differ.")
    jwt_tenant_claim: str = _setting("tenant", CLAIM, "The claim that names the tenant.")
    jwt_scope_claim: str = _setting("scope", CLAIM, "The claim that lists the scopes: a list, or words in one text.")
    idempotency_kv_bucket: str = _setting("pyoco_idempotency", NAME, "Bucket of requests with an idempotency key.")
    idempotency_ttl_sec: float = _setting(
        86_400.0, FROM_A_MINUTE, "How long a request with an idempotency key is remembered."
    )
    # Identity: who sent what
    http_trusted_proxies: str = _setting(
        "",
        ADDRESSES,
        "Proxies whose X-Forwarded-For names the client: addresses and networks joined by commas; * trusts everybody. "
        "Empty: the address of a client is that of its connection.",
    )
    access_log_level: str = _setting(
        "INFO", ACCESS_LOG_LEVEL, "Level of the access log's lines, one per request. OFF: none."
    )
    access_log_sample: float = _setting(
        1.0, SHARE, "Share of the requests that have a line in the access log. Errors always have one."
    )
    audit_stream: str = _setting("PYOCO_AUDIT", NAME, "Stream of the audit trail: who did what.")
    audit_subject_prefix: str = _setting("pyoco.audit", SUBJECT, "Subjects of the audit trail.")
    audit_retention_sec: float = _setting(
        7_776_000.0, ZERO_OR_MORE, "How long the audit trail keeps a record, also when its run is gone. 0: for ever."
    )

    # Rate limits (of all gateways together; a caller is an API key, the subject of a token, else an address)
    rate_limit_read_per_min: int = _setting(
        600, _whole(0, MAX_PER_MIN), "Reads of `/pdca` and `/gui` per caller and minute. 0: no limit."
    )
    rate_limit_write_per_min: int = _setting(
        120, _whole(0, MAX_PER_MIN), "Changes at `/pdca` per caller and minute. 0: no limit."
    )
    rate_limit_bulk_per_min: int = _setting(
        10, _whole(0, MAX_PER_MIN), "`POST /pdca/recheck_all` per caller and minute. 0: no limit."
    )
    rate_limit_api_read_per_min: int = _setting(
        0, _whole(0, MAX_PER_MIN), "Reads of all other APIs per caller and minute. 0: no limit."
    )
    rate_limit_api_write_per_min: int = _setting(
        0,
        _whole(0, MAX_PER_MIN),
        "Changes at all other APIs per caller and minute; claims and reports of workers over HTTP count. 0: no limit.",
    )
    rate_limit_unauthenticated_per_min: int = _setting(
        600,
        _whole(0, MAX_PER_MIN),
        "Requests without valid credentials per address and minute, where credentials are needed. 0: no limit.",
    )
    rate_limit_burst_sec: int = _setting(
        60,
        _whole(1, 60),
        "How many seconds of a quota a caller that was quiet may use at once. 60: the quota of the whole minute; 6: in "
        "no minute more than a tenth above the quota.",
    )

    # Dashboard
    dashboard_lang: str = _setting(
        "auto",
        _one_of("auto", "ja", "en"),
        "Language of the dashboard. `auto`: that of the server's locale. The page has a switch.",
    )
    dashboard_actions: bool = _setting(
        False, YES_OR_NO, "Whether the dashboard offers to cancel, approve, replay and hide."
    )

    # PDCA: batches
    pdca_tag: str = _setting("", A_TAG, "Tag of the workers that run the flow pdca.recheck. Empty: the default tag.")
    pdca_concurrency: int = _setting(
        100, _whole(1, 2_000), "Most batches of one PDCA request that are queued or running on workers at a time."
    )
    pdca_data_dir: str = _setting(
        "", A_PATH, "Folder in which the example flow pdca.recheck finds `<strategy id>.csv`, on the worker's machine."
    )

    # Wheels
    wheel_object_store_bucket: str = _setting("pyoco_wheels", NAME, "Object store of wheels.")
    wheel_max_bytes: int = _setting(536_870_912, _whole(1), "Largest wheel accepted.")
    wheel_history_kv_bucket: str = _setting("pyoco_wheel_history", NAME, "Bucket of the wheels' history.")
    wheel_history_ttl_sec: float = _setting(7_776_000.0, ZERO_OR_MORE, "History kept. 0: for ever.")
    wheel_sync_enabled: bool = _setting(False, YES_OR_NO, "Whether a worker installs the wheels meant for its tags.")
    wheel_sync_dir: str = _setting(".pyoco/wheels", A_PATH, "Where a worker keeps the wheels it installed.")
    wheel_sync_interval_sec: float = _setting(10.0, ABOVE_ZERO, "How often a worker looks for new wheels.")
    wheel_install_timeout_sec: float = _setting(180.0, ABOVE_ZERO, "Longest installation of wheels.")

    # Airflow as the engine of rechecks
    airflow_url: str = _setting(
        "", HTTP_ADDRESS, "Airflow 3, which then runs the batches of rechecks. Empty: workers run them as flows."
    )
    airflow_user: str = _setting("", PRINTABLE, "User of Airflow that may read and trigger the DAG.")
    airflow_password: str = _setting("", ANY_TEXT, "Password of that user.", secret=True)
    airflow_password_file: str = _setting(
        "", A_PATH, "File with that password, read at every login: a password may change without a restart."
    )
    airflow_dag_id: str = _setting("pdca_recheck", DAG_ID, "The DAG that runs a batch.")
    airflow_concurrency: int = _setting(
        1,
        _whole(1, MOST_AIRFLOW_REQUESTS),
        "Most requests of a gateway to Airflow at a time. Above 1 only where Airflow does not use SQLite.",
    )
    airflow_ca_file: str = _setting(
        "", A_PATH, "Certificates of the authority that signed Airflow's certificate. Empty: those of the system."
    )
    airflow_poll_interval_sec: float = _setting(
        2.0, ABOVE_ZERO, "How often DAG runs are looked at; less often while nothing changes."
    )

    # PDCA requests
    artifact_object_store_bucket: str = _setting("pyoco_artifacts", NAME, "Object store of the artifacts of batches.")
    signing_keys_kv_bucket: str = _setting("pyoco_signing_keys", NAME, "Bucket of the keys that sign download links.")

    # Environment and logs
    load_dotenv: bool = _setting(True, YES_OR_NO, "Whether the dotenv file is read at start.")
    env_file: str = _setting(".env", A_PATH, "The dotenv file; it never overrides a variable that is set.")
    log_level: str = _setting("INFO", LOG_LEVEL, "Least severe level that is written.")
    log_format: str = _setting("json", _one_of("json", "text"), "One JSON object per line, or lines for people.")
    log_utc: bool = _setting(True, YES_OR_NO, "Times in UTC; otherwise local time with its offset.")
    log_include_traceback: bool = _setting(True, YES_OR_NO, "Whether errors carry their traceback.")

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = getattr(self, setting.name)
            if not setting.accepts.allows(value):
                raise _refused(setting, value)
        for problem in _contradictions(self):
            raise InvalidUsage(problem)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> NatsBackendConfig:
        """The settings in `environ`; overrides that are not None (command line options) win.

        Without `environ` it is that of the process, to which the dotenv file is added first. An empty variable is an
        unset one.
        """
        if environ is None:
            load_dotenv(os.environ)
            environ = os.environ
        values = {s.name: _read(s, environ) for s in SETTINGS if overrides.get(s.name) is None}
        return cls(**values, **{name: value for name, value in overrides.items() if value is not None})

    @property
    def data_folder(self) -> Path:
        """The data folder of every program: the configured one, else one that is here, else that of the user."""
        if self.data_dir:
            return Path(self.data_dir)
        return LOCAL_DATA_FOLDER if is_data_folder(LOCAL_DATA_FOLDER) else user_data_folder()

    @property
    def artifact_dir(self) -> str | None:
        """Where runs save artifacts: in a data folder that was given or found; None leaves it to pyoco.

        A user of the runners cannot enter the data folder.
        """
        is_in_data_folder = self.data_dir and not self.runner_user
        return os.path.abspath(self.data_folder / "artifacts") if is_in_data_folder else None

    @property
    def nats_servers(self) -> list[str]:
        return self.nats_url.split(",")

    @property
    def nats_url_without_secrets(self) -> str:
        """`nats_url` as it may be shown to people and logs."""
        return _without_userinfo(self.nats_url)

    @property
    def jwt_audiences(self) -> frozenset[str]:
        return frozenset(name for part in self.jwt_audience.split(",") if (name := part.strip()))

    @property
    def auth_ways(self) -> frozenset[str]:
        """The accepted credentials, `api_key` and `jwt`; empty if authentication is off."""
        return frozenset(self.http_auth_mode.split(",")) - {"none"}

    def __repr__(self) -> str:
        shown = (f"{s.name}={_shown(s, getattr(self, s.name))}" for s in SETTINGS)
        return f"{type(self).__name__}({', '.join(shown)})"


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(
        name=declared.name, variable=f"PYOCO_{declared.name.upper()}", default=declared.default, **declared.metadata
    )
    for declared in fields(NatsBackendConfig)
)
BY_NAME = {setting.name: setting for setting in SETTINGS}


def _read(setting: Setting, environ: Mapping[str, str]) -> Any:
    text = environ.get(setting.variable, "").strip()
    if not text:
        return setting.default
    try:
        value = setting.accepts.read(text)
    except ValueError:
        value = None
    if value is None or not setting.accepts.allows(value):
        raise _refused(setting, text)  # without a cause: it would repeat the value, which may be a secret
    return value


def _refused(setting: Setting, value: object) -> InvalidUsage:
    return InvalidUsage(
        f"{setting.variable} is {_shown(setting, value)}; accepted: {setting.accepts.words}", setting=setting.variable
    )


def _shown(setting: Setting, value: object) -> str:
    if setting.secret:
        return "'***'" if value else "''"
    return repr(_without_userinfo(value) if setting.name.endswith("_url") and isinstance(value, str) else value)


def _without_userinfo(url: str) -> str:
    # Greedy on purpose: a password may hold commas, slashes and at-signs; hiding a host name is harmless.
    return re.sub(r"^(\w+://)?.*@", r"\1***@", url, flags=re.DOTALL)


def _contradictions(config: NatsBackendConfig) -> Iterator[str]:
    """What is wrong with the combination of settings."""
    for lower, upper in (
        ("ack_progress_interval_sec", "consumer_ack_wait_sec"),
        ("run_heartbeat_interval_sec", "worker_disconnect_timeout_sec"),
        ("worker_heartbeat_interval_sec", "worker_disconnect_timeout_sec"),
        ("worker_heartbeat_interval_sec", "workers_kv_ttl_sec"),
    ):
        low, high = getattr(config, lower), getattr(config, upper)
        if low >= high:
            yield f"{BY_NAME[lower].variable} is {low}; accepted: below {BY_NAME[upper].variable}, which is {high}"
    if "api_key" in config.auth_ways and config.http_api_key_header.lower() == "authorization":
        yield "PYOCO_HTTP_API_KEY_HEADER is 'Authorization'; accepted: another header, for example X-API-Key"
    if config.jwt_jwks_file and config.jwt_pem_file:
        yield "PYOCO_JWT_JWKS_FILE and PYOCO_JWT_PEM_FILE are both set; accepted: one of them"
    needed_for_jwt = {
        "PYOCO_JWT_ISSUER": config.jwt_issuer,
        "PYOCO_JWT_AUDIENCE": config.jwt_audiences,
        "PYOCO_JWT_JWKS_FILE or PYOCO_JWT_PEM_FILE": config.jwt_jwks_file or config.jwt_pem_file,
    }
    for variable, value in needed_for_jwt.items():
        if "jwt" in config.auth_ways and not value:
            yield f"PYOCO_HTTP_AUTH_MODE is {config.http_auth_mode!r} and needs {variable}, which is not set"
    yield from _airflow_contradictions(config)
    for ending in ("_stream", "_bucket", "_subject_prefix"):
        for one, other in permutations((name for name in BY_NAME if name.endswith(ending)), 2):
            first, second = getattr(config, one), getattr(config, other)
            # The broker refuses streams with overlapping subjects, and a republish into its own stream never ends.
            if first == second or (ending == "_subject_prefix" and second.startswith(f"{first}.")):
                yield (
                    f"{BY_NAME[other].variable} is {second!r}; "
                    f"accepted: a name outside that of {BY_NAME[one].variable}, which is {first!r}"
                )


def _airflow_contradictions(config: NatsBackendConfig) -> Iterator[str]:
    if config.airflow_password and config.airflow_password_file:
        yield "PYOCO_AIRFLOW_PASSWORD and PYOCO_AIRFLOW_PASSWORD_FILE are both set; accepted: one of them"
    if config.airflow_ca_file and config.airflow_url.startswith("http:"):
        yield "PYOCO_AIRFLOW_CA_FILE is set and needs an address with https in PYOCO_AIRFLOW_URL"
    together = {
        "PYOCO_AIRFLOW_URL": config.airflow_url,
        "PYOCO_AIRFLOW_USER": config.airflow_user,
        "PYOCO_AIRFLOW_PASSWORD or PYOCO_AIRFLOW_PASSWORD_FILE": (
            config.airflow_password or config.airflow_password_file
        ),
    }
    given = [variable for variable, value in together.items() if value]
    for variable, value in together.items():
        if given and not value:
            yield f"{given[0]} is set and needs {variable}, which is not set"
    if config.airflow_ca_file and not given:
        yield "PYOCO_AIRFLOW_CA_FILE is set and needs PYOCO_AIRFLOW_URL, which is not set"


def is_data_folder(path: Path) -> bool:
    """Whether an embedded broker has been there. Wheels alone (PYOCO_WHEEL_SYNC_DIR) make no data folder."""
    return os.path.isdir(path / "nats")  # Path.is_dir raises in a folder that may not be entered


def user_data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of this user's data by the XDG Base Directory Specification; `.pyoco` for a user without a home."""
    if os.path.isabs(root := environ.get("XDG_DATA_HOME", "")):
        return Path(root) / "pyoco-server"
    try:
        return Path.home() / ".local" / "share" / "pyoco-server"
    except RuntimeError:
        return LOCAL_DATA_FOLDER


def names_a_broker(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a broker was configured; otherwise the one of the data folder is used, if it runs."""
    return is_set("nats_url", environ)


def is_set(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the setting has a variable; an empty one does not count."""
    return bool(environ.get(BY_NAME[name].variable, "").strip())


def load_dotenv(environ: MutableMapping[str, str]) -> None:
    """Add the variables of the dotenv file to `environ`; existing ones are kept.

    Lines are `KEY=VALUE`, optionally with `export` and a comment; quotes are removed and their content is not
    interpreted. The default file is optional; a file that was named must exist.
    """
    if not _read(BY_NAME["load_dotenv"], environ):
        return
    setting = BY_NAME["env_file"]
    path = Path(_read(setting, environ))
    if not os.path.isfile(path):  # Path.is_file raises in a folder that may not be entered, as after `sudo -u`
        if environ.get(setting.variable, "").strip():
            raise InvalidUsage(f"{setting.variable} is {str(path)!r}; accepted: a file that exists")
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidUsage(f"{path}: cannot be read as UTF-8 text ({type(error).__name__})") from error
    found = dict(_parse_dotenv(text, path))
    for key, value in found.items():
        environ.setdefault(key, value)


def _parse_dotenv(text: str, path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = DOTENV_LINE.fullmatch(stripped)
        if match is None:  # the line itself is not shown: it may hold a secret
            raise InvalidUsage(f"{path}, line {number}: accepted: KEY=VALUE, # comment", file=str(path), line=number)
        yield match["key"], match["single"] or match["double"] or (match["bare"] or "").strip()
