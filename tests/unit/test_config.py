"""Settings: defaults of the contract, errors that name the variable, redacted secrets."""

from __future__ import annotations

import math
import os
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.config import BY_NAME, SETTINGS, NatsBackendConfig, user_data_folder
from pyoco_server.errors import InvalidUsage

# The contract's own table: variable and default.
CONTRACT = {
    "PYOCO_NATS_URL": "nats://127.0.0.1:4222",
    "PYOCO_WORK_SUBJECT_PREFIX": "pyoco.work",
    "PYOCO_DEFAULT_TAG": "default",
    "PYOCO_RUNS_KV_BUCKET": "pyoco_runs",
    "PYOCO_WORKERS_KV_BUCKET": "pyoco_workers",
    "PYOCO_WORKERS_KV_TTL_SEC": 15.0,
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": 20.0,
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": 1.0,
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": 5.0,
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": 30.0,
    "PYOCO_CONSUMER_ACK_WAIT_SEC": 30.0,
    "PYOCO_CONSUMER_MAX_DELIVER": 20,
    "PYOCO_CONSUMER_MAX_ACK_PENDING": 200,
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": 10.0,
    "PYOCO_DLQ_STREAM": "PYOCO_DLQ",
    "PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.dlq",
    "PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": True,
    "PYOCO_DLQ_MAX_AGE_SEC": 604800.0,
    "PYOCO_DLQ_MAX_MSGS": 100000,
    "PYOCO_DLQ_MAX_BYTES": 536870912,
    "PYOCO_MAX_RUN_SNAPSHOT_BYTES": 262144,
    "PYOCO_WORKFLOW_YAML_MAX_BYTES": 262144,
    "PYOCO_WHEEL_OBJECT_STORE_BUCKET": "pyoco_wheels",
    "PYOCO_WHEEL_MAX_BYTES": 536870912,
    "PYOCO_WHEEL_SYNC_ENABLED": False,
    "PYOCO_WHEEL_SYNC_DIR": ".pyoco/wheels",
    "PYOCO_WHEEL_SYNC_INTERVAL_SEC": 10.0,
    "PYOCO_WHEEL_INSTALL_TIMEOUT_SEC": 180.0,
    "PYOCO_WHEEL_HISTORY_KV_BUCKET": "pyoco_wheel_history",
    "PYOCO_WHEEL_HISTORY_TTL_SEC": 7776000.0,
    "PYOCO_HTTP_AUTH_MODE": "none",
    "PYOCO_HTTP_API_KEY_HEADER": "X-API-Key",
    "PYOCO_AUTH_KV_BUCKET": "pyoco_auth",
    "PYOCO_AUTH_PEPPER": "",
    "PYOCO_DASHBOARD_LANG": "auto",
    "PYOCO_LOAD_DOTENV": True,
    "PYOCO_ENV_FILE": ".env",
    "PYOCO_LOG_LEVEL": "INFO",
    "PYOCO_LOG_FORMAT": "json",
    "PYOCO_LOG_UTC": True,
    "PYOCO_LOG_INCLUDE_TRACEBACK": True,
}


@pytest.mark.parametrize(("variable", "default"), CONTRACT.items())
def test_a_setting_of_the_contract_has_the_contracts_default(variable: str, default: object) -> None:
    setting = next(setting for setting in SETTINGS if setting.variable == variable)

    assert setting.default == default
    assert type(setting.default) is type(default)


def test_an_empty_environment_gives_the_defaults() -> None:
    config = NatsBackendConfig.from_env({})

    assert config == NatsBackendConfig()
    assert all(getattr(config, setting.name) == setting.default for setting in SETTINGS)


def test_every_setting_has_a_description_and_its_own_variable() -> None:
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS)
    assert all(setting.about.endswith(".") and setting.accepts.words for setting in SETTINGS)


def test_a_setting_is_read_from_its_variable() -> None:
    config = NatsBackendConfig.from_env({"PYOCO_CONSUMER_MAX_DELIVER": " 7 ", "PYOCO_LOG_LEVEL": "debug"})

    assert config.consumer_max_deliver == 7
    assert config.log_level == "DEBUG"


def test_an_empty_variable_is_an_unset_one() -> None:
    assert NatsBackendConfig.from_env({"PYOCO_CONSUMER_MAX_DELIVER": ""}).consumer_max_deliver == 20


def test_an_override_other_than_none_replaces_the_environment() -> None:
    environ = {"PYOCO_DATA_DIR": "from-env", "PYOCO_DEFAULT_TAG": "env"}

    config = NatsBackendConfig.from_env(environ, data_dir="from-option", default_tag=None)

    assert (config.data_dir, config.default_tag) == ("from-option", "env")


def test_the_data_folder_is_the_configured_one_else_one_here_else_that_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    config = NatsBackendConfig()

    of_user = config.data_folder
    (tmp_path / ".pyoco" / "wheels").mkdir(parents=True)
    beside_wheels = config.data_folder
    (tmp_path / ".pyoco" / "nats").mkdir()
    here = config.data_folder

    assert of_user == beside_wheels == tmp_path / "xdg" / "pyoco-server"
    assert here == Path(".pyoco")
    assert NatsBackendConfig(data_dir="named").data_folder == Path("named")


@pytest.mark.parametrize(
    ("environ", "folder"),
    [({}, "home/.local/share/pyoco-server"), ({"XDG_DATA_HOME": "relative"}, "home/.local/share/pyoco-server")],
    ids=["unset", "relative"],
)
def test_without_a_valid_xdg_folder_the_users_data_is_below_its_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environ: dict[str, str], folder: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert user_data_folder(environ) == tmp_path / folder


def test_artifacts_are_in_a_data_folder_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert NatsBackendConfig(data_dir="data").artifact_dir == str(tmp_path / "data" / "artifacts")
    assert NatsBackendConfig().artifact_dir is None


def test_an_override_hides_a_bad_variable() -> None:
    assert NatsBackendConfig.from_env({"PYOCO_NATS_REPLICAS": "many"}, nats_replicas=3).nats_replicas == 3


def test_an_unknown_override_is_a_programming_error() -> None:
    with pytest.raises(TypeError):
        NatsBackendConfig.from_env({}, no_such_setting=1)


@pytest.mark.parametrize("word", ["1", "true", "yes", "on", "TRUE", "On"])
def test_true_values_are_accepted(word: str) -> None:
    assert NatsBackendConfig.from_env({"PYOCO_WHEEL_SYNC_ENABLED": word}).wheel_sync_enabled is True


@pytest.mark.parametrize("word", ["0", "false", "no", "off", "False", "OFF"])
def test_false_values_are_accepted(word: str) -> None:
    assert NatsBackendConfig.from_env({"PYOCO_LOG_UTC": word}).log_utc is False


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PYOCO_CONSUMER_MAX_DELIVER", "0"),
        ("PYOCO_CONSUMER_MAX_DELIVER", "twenty"),
        ("PYOCO_CONSUMER_ACK_WAIT_SEC", "0"),
        ("PYOCO_CONSUMER_ACK_WAIT_SEC", "-1"),
        ("PYOCO_RUN_RETENTION_SEC", "nan"),
        ("PYOCO_RUN_RETENTION_SEC", "inf"),
        ("PYOCO_RUN_RETENTION_SEC", "1e300"),
        ("PYOCO_NATS_REPLICAS", "6"),
        ("PYOCO_NATS_STORAGE", "disk"),
        ("PYOCO_NATS_SYNC", "never"),
        ("PYOCO_NATS_URL", "127.0.0.1:4222"),
        ("PYOCO_NATS_URL", "nats://"),
        ("PYOCO_NATS_URL", "nats://host:99999"),
        ("PYOCO_NATS_URL", "nats://one,two"),
        ("PYOCO_DEFAULT_TAG", "gpu.large"),
        ("PYOCO_DEFAULT_TAG", "日本"),
        ("PYOCO_RUNS_KV_BUCKET", "runs.bucket"),
        ("PYOCO_EVENTS_STREAM", "A B"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco.>"),
        ("PYOCO_WORK_SUBJECT_PREFIX", "pyoco..work"),
        ("PYOCO_HTTP_API_KEY_HEADER", "X API Key"),
        ("PYOCO_HTTP_AUTH_MODE", "maybe"),
        ("PYOCO_HTTP_AUTH_MODE", "none,api_key"),
        ("PYOCO_HTTP_AUTH_MODE", "api_key,api_key"),
        ("PYOCO_HTTP_AUTH_MODE", "api_key,"),
        ("PYOCO_JWT_LEEWAY_SEC", "601"),
        ("PYOCO_JWT_LEEWAY_SEC", "-1"),
        ("PYOCO_LOG_LEVEL", "LOUD"),
        ("PYOCO_LOG_FORMAT", "xml"),
        ("PYOCO_LOG_UTC", "perhaps"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable_its_value_and_what_is_accepted(variable: str, value: str) -> None:
    setting = next(setting for setting in SETTINGS if setting.variable == variable)

    with pytest.raises(InvalidUsage) as refused:
        NatsBackendConfig.from_env({variable: value})

    assert refused.value.detail == f"{variable} is {value!r}; accepted: {setting.accepts.words}"
    assert refused.value.err_id == "ERR-PYOCO-0018"


def test_a_bad_override_is_refused() -> None:
    with pytest.raises(InvalidUsage, match="PYOCO_ACK_PROGRESS_INTERVAL_SEC is nan"):
        NatsBackendConfig(ack_progress_interval_sec=math.nan)


@pytest.mark.parametrize(
    ("environ", "blamed"),
    [
        ({"PYOCO_ACK_PROGRESS_INTERVAL_SEC": "30"}, "PYOCO_CONSUMER_ACK_WAIT_SEC"),
        ({"PYOCO_CONSUMER_ACK_WAIT_SEC": "5"}, "PYOCO_ACK_PROGRESS_INTERVAL_SEC"),
        ({"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "20"}, "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC"),
        ({"PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "20"}, "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC"),
        ({"PYOCO_WORKERS_KV_TTL_SEC": "5"}, "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC"),
        ({"PYOCO_RUNS_KV_BUCKET": "pyoco_auth"}, "PYOCO_AUTH_KV_BUCKET"),
        ({"PYOCO_WORK_STREAM": "PYOCO_DLQ"}, "PYOCO_DLQ_STREAM"),
        ({"PYOCO_STORED_SUBJECT_PREFIX": "pyoco.events"}, "PYOCO_EVENTS_SUBJECT_PREFIX"),
        ({"PYOCO_DLQ_SUBJECT_PREFIX": "pyoco.work.dead"}, "PYOCO_WORK_SUBJECT_PREFIX"),
    ],
)
def test_incompatible_settings_are_refused(environ: dict[str, str], blamed: str) -> None:
    with pytest.raises(InvalidUsage, match=blamed) as refused:
        NatsBackendConfig.from_env(environ)

    assert next(iter(environ)) in refused.value.detail


TOKENS = {"PYOCO_JWT_ISSUER": "i", "PYOCO_JWT_AUDIENCE": "a", "PYOCO_JWT_PEM_FILE": "key.pem"}


@pytest.mark.parametrize(
    ("mode", "ways"),
    [
        ("none", set()),
        ("api_key", {"api_key"}),
        ("JWT", {"jwt"}),
        ("api_key,jwt", {"api_key", "jwt"}),
        ("jwt, api_key", {"api_key", "jwt"}),
    ],
)
def test_authentication_methods_are_listed_in_any_order(mode: str, ways: set[str]) -> None:
    assert NatsBackendConfig.from_env({"PYOCO_HTTP_AUTH_MODE": mode, **TOKENS}).auth_ways == ways


@pytest.mark.parametrize("missing", TOKENS)
@pytest.mark.parametrize("mode", ["jwt", "api_key,jwt"])
def test_tokens_need_an_issuer_an_audience_and_a_key(mode: str, missing: str) -> None:
    with pytest.raises(InvalidUsage, match=missing):
        NatsBackendConfig.from_env({"PYOCO_HTTP_AUTH_MODE": mode, **TOKENS, missing: ""})


def test_there_is_one_key_file_and_each_method_has_its_own_header() -> None:
    with pytest.raises(InvalidUsage, match="both set"):
        NatsBackendConfig.from_env({**TOKENS, "PYOCO_JWT_JWKS_FILE": "jwks.json"})
    with pytest.raises(InvalidUsage, match="PYOCO_HTTP_API_KEY_HEADER"):
        NatsBackendConfig(http_auth_mode="api_key", http_api_key_header="authorization")


def test_subjects_may_share_a_prefix_of_a_token() -> None:
    config = NatsBackendConfig(work_subject_prefix="pyoco.work", dlq_subject_prefix="pyoco.workshop")

    assert config.dlq_subject_prefix == "pyoco.workshop"


def test_several_servers_are_accepted() -> None:
    config = NatsBackendConfig.from_env({"PYOCO_NATS_URL": "nats://one:4222,tls://[::1]:4223"})

    assert config.nats_servers == ["nats://one:4222", "tls://[::1]:4223"]


def test_secrets_are_not_in_the_repr() -> None:
    config = NatsBackendConfig(nats_token="t0ken", auth_pepper="p3pper", nats_url="nats://ann:pa5s@host:4222")

    text = repr(config) + str(config)

    assert not [secret for secret in ("t0ken", "p3pper", "ann", "pa5s") if secret in text]
    assert "nats://***@host:4222" in text


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_redaction_removes_every_password(noise: str) -> None:
    config = NatsBackendConfig(nats_url="nats://h")
    secret = f"5ecret{noise}5ecret"

    object.__setattr__(config, "nats_url", f"nats://ann:{secret}@host:4222")

    assert "5ecret" not in config.nats_url_without_secrets


def test_a_refused_url_is_shown_without_its_password() -> None:
    with pytest.raises(InvalidUsage) as refused:
        NatsBackendConfig.from_env({"PYOCO_NATS_URL": "http://ann:pa,ss@host"})

    assert "ss" not in refused.value.detail.split(";")[0]
    assert refused.value.__cause__ is None


def test_settings_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        NatsBackendConfig().default_tag = "other"  # type: ignore[misc]


def test_only_the_secrets_are_secret() -> None:
    secrets = {"nats_token", "auth_pepper", "airflow_password"}

    assert {name for name, setting in BY_NAME.items() if setting.secret} == secrets


def test_the_default_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "mine")

    assert NatsBackendConfig.from_env().default_tag == "mine"
    assert os.environ["PYOCO_DEFAULT_TAG"] == "mine"


AIRFLOW: dict[str, Any] = {
    "airflow_url": "https://airflow.example.org",
    "airflow_user": "pyoco",
    "airflow_password": "x",
}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"airflow_user": ""}, "PYOCO_AIRFLOW_URL is set and needs PYOCO_AIRFLOW_USER, which is not set"),
        (
            {"airflow_password": ""},
            "PYOCO_AIRFLOW_URL is set and needs PYOCO_AIRFLOW_PASSWORD or PYOCO_AIRFLOW_PASSWORD_FILE, "
            "which is not set",
        ),
        ({"airflow_url": ""}, "PYOCO_AIRFLOW_USER is set and needs PYOCO_AIRFLOW_URL, which is not set"),
        (
            {"airflow_password_file": "p"},
            "PYOCO_AIRFLOW_PASSWORD and PYOCO_AIRFLOW_PASSWORD_FILE are both set; accepted: one of them",
        ),
        (
            {"airflow_url": "http://airflow", "airflow_ca_file": "ca.pem"},
            "PYOCO_AIRFLOW_CA_FILE is set and needs an address with https in PYOCO_AIRFLOW_URL",
        ),
        (
            {"airflow_url": "", "airflow_user": "", "airflow_password": "", "airflow_ca_file": "ca.pem"},
            "PYOCO_AIRFLOW_CA_FILE is set and needs PYOCO_AIRFLOW_URL, which is not set",
        ),
    ],
)
def test_settings_of_airflow_that_contradict_each_other_are_refused_by_name(
    changed: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidUsage) as refused:
        NatsBackendConfig(**AIRFLOW | changed)

    assert refused.value.detail == named
    assert refused.value.err_id == "ERR-PYOCO-0018"


@pytest.mark.parametrize(
    "url",
    ["airflow:8080", "ftp://airflow", "http://", "http://user:hush@airflow", "http://airflow?x=1", "http://airflow:0"],
)
def test_an_address_of_airflow_is_plain_http_or_https_and_a_password_in_it_is_not_repeated(url: str) -> None:
    with pytest.raises(InvalidUsage, match="PYOCO_AIRFLOW_URL is") as refused:
        NatsBackendConfig(**AIRFLOW | {"airflow_url": url})

    assert "hush" not in str(refused.value)


def test_the_password_of_airflow_is_a_secret() -> None:
    assert "'hush'" not in repr(NatsBackendConfig(**AIRFLOW | {"airflow_password": "hush"}))
