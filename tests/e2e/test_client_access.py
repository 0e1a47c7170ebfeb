"""`pyoco-client` where keys are asked for: what it sends, and what it says to those who have none or a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.programs import Program, address_of, client, up

ASKS_FOR_KEYS = {"PYOCO_HTTP_AUTH_MODE": "api_key"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with up(folder, env=ASKS_FOR_KEYS) as system:
        yield address_of(system)


def key_for(folder: Path, scopes: str) -> str:
    words = ["-m", "pyoco_server.cli.admin", "api-key", "create", "--tenant", "t", "--scopes", scopes]
    with Program(*words, "--data-dir", "data", cwd=folder) as admin:
        assert admin.exit_code() == 0, admin.said()
        return admin.out.wait_for(r"^(\S+)$")[1]


def asked(folder: Path, address: str, *arguments: str, key: str | None) -> tuple[int, str]:
    env = {"PYOCO_SERVER": address} | ({} if key is None else {"PYOCO_API_KEY": key})
    with client(*arguments, cwd=folder, env=env) as program:
        code = program.exit_code()
    return code, program.said()


def test_without_a_key_the_doctor_says_which_one_is_missing(folder: Path, address: str) -> None:
    code, said = asked(folder, address, "doctor", key=None)

    assert code == 1
    assert said.count("ERR-PYOCO-0014") == 1
    assert "PYOCO_API_KEY" in said


def test_a_wrong_key_has_its_own_error_and_is_never_printed(folder: Path, address: str) -> None:
    code, said = asked(folder, address, "doctor", key="pyoco_wrong-key")

    assert code == 1
    assert "ERR-PYOCO-0015" in said
    assert "wrong-key" not in said


def test_a_key_without_the_scope_is_refused_by_its_name(folder: Path, address: str) -> None:
    key = key_for(folder, "runs:read")

    code, said = asked(folder, address, "submit", "--flow-name", "hello", key=key)

    assert code == 1
    assert "[ERR-PYOCO-0036]" in said
    assert "runs:write" in said
    assert key not in said


def test_with_a_good_key_everything_works(folder: Path, address: str) -> None:
    key = key_for(folder, "runs:read,runs:write")

    submitted, _ = asked(folder, address, "submit", "--flow-name", "hello", key=key)
    listed, said = asked(folder, address, "list", "--output", "table", key=key)

    assert (submitted, listed) == (0, 0)
    assert "PENDING" in said
