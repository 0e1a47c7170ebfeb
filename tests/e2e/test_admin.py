"""`pyoco-server-admin` with a `pyoco-server up` that requires keys; all processes are real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from support.programs import Program, address_of, connected, up

PEPPER = "a pepper of the tests"
ENV = {"PYOCO_HTTP_AUTH_MODE": "api_key", "PYOCO_AUTH_PEPPER": PEPPER}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="module")
def system(folder: Path) -> Iterator[Program]:
    with up(folder, env=ENV) as program:
        address_of(program)
        yield program


@pytest.fixture
def client(system: Program) -> Iterator[httpx.Client]:
    with connected(system) as opened:
        yield opened


def admin(folder: Path, *arguments: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout and all of stderr of `pyoco-server-admin api-key …`, on the data folder."""
    words = ("-m", "pyoco_server.cli.admin", "api-key", *arguments, "--data-dir", "data")
    with Program(*words, cwd=folder, env=ENV) as program:
        code = program.exit_code()
    return code, program.out.all(), "\n".join(program.err.all())


def as_json(folder: Path, *arguments: str) -> Any:
    code, out, err = admin(folder, *arguments, "--output", "json")
    assert code == 0, err
    return orjson.loads("\n".join(out))


def test_a_new_key_is_the_only_output_and_valid_at_once(folder: Path, system: Program, client: httpx.Client) -> None:
    assert client.get("/runs").status_code == 401

    code, out, err = admin(folder, "create", "--tenant", "team-a", "--name", "ci", "--expires-in", "90d")

    assert code == 0, err
    (key,) = out
    assert key not in err
    submitted = client.post("/runs", json={"flow_name": "hello"}, headers={"X-API-Key": key})
    run = client.get(f"/runs/{submitted.json()['run_id']}", headers={"X-API-Key": key}).json()
    assert (run["tenant_id"], run["api_key_id"]) == ("team-a", key.split("_")[1])
    assert key not in system.output()
    assert PEPPER not in system.output()


def test_keys_are_listed_without_secrets_and_revoked_permanently(
    folder: Path, system: Program, client: httpx.Client
) -> None:
    made = as_json(folder, "create", "--tenant", "team-b", "--scopes", "runs:read")
    shown = {"X-API-Key": made["api_key"]}
    assert (made["tenant_id"], made["scopes"], made["expires_at"]) == ("team-b", ["runs:read"], None)
    assert client.get("/runs", headers=shown).status_code == 200
    assert client.post("/runs", json={"flow_name": "hello"}, headers=shown).json()["err_id"] == "ERR-PYOCO-0036"
    assert [one["key_id"] for one in as_json(folder, "list", "--tenant", "team-b")] == [made["key_id"]]

    code, out, err = admin(folder, "revoke", made["key_id"])

    assert (code, out) == (0, []), err
    while (refused := client.get("/runs", headers=shown)).status_code == 200:
        pass  # every gateway checks four times a second
    assert (refused.status_code, refused.json()["err_id"]) == (403, "ERR-PYOCO-0015")
    assert as_json(folder, "list", "--tenant", "team-b") == []
    (ended,) = as_json(folder, "list", "--tenant", "team-b", "--all")
    assert ended["revoked_at"] is not None
    assert "digest" not in ended
    _, table, _ = admin(folder, "list", "--all")
    assert made["api_key"] not in "\n".join(table)
    assert table[0].split() == ["KEY", "ID", "TENANT", "NAME", "CREATED", "EXPIRES", "REVOKED", "SCOPES"]
    assert any(line.startswith(f"{made['key_id']}  team-b  ") for line in table)


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["revoke", "ffffffffffffffff"], "there is no API key"),
        (["create", "--tenant", "team a"], "--tenant team-a"),
        (["create", "--tenant", "t", "--expires-at", "2001-01-01"], "expired already"),
    ],
)
def test_a_failed_command_exits_with_1_and_a_hint(
    folder: Path, system: Program, arguments: list[str], printed: str
) -> None:
    code, out, err = admin(folder, *arguments)

    assert (code, out) == (1, [])
    assert printed in err
    assert "[ERR-PYOCO-0018]" in err
