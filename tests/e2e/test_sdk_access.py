"""The blocking client at a gateway with API keys; all processes are real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.http_client import Forbidden, Unauthenticated
from support.programs import Program, address_of, up
from support.twins import Twin

ENV = {"PYOCO_HTTP_AUTH_MODE": "api_key"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with up(folder, env=ENV) as program:
        yield address_of(program)


@pytest.fixture(scope="module")
def keys(folder: Path, url: str) -> dict[str, str]:
    """Two keys of one tenant; the second may only read."""
    return {
        "ours": created(folder, "--tenant", "team-a"),
        "reader": created(folder, "--tenant", "team-a", "--scopes", "runs:read"),
    }


def created(folder: Path, *arguments: str) -> str:
    words = ("-m", "pyoco_server.cli.admin", "api-key", "create", *arguments, "--data-dir", "data")
    with Program(*words, cwd=folder, env=ENV) as program:
        assert program.exit_code() == 0, program.said()
    (key,) = program.out.all()
    return key


def test_a_key_is_accepted_also_from_the_environment(
    url: str, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = Twin(url, "sync", api_key=keys["ours"]).ask("submit_run", "hello")["run_id"]
    monkeypatch.setenv("PYOCO_API_KEY", keys["reader"])

    assert Twin(url, "sync").ask("get_run", run_id)["tenant_id"] == "team-a"


def test_without_a_key_only_health_is_visible(url: str) -> None:
    assert Twin(url, "sync").ask("health")["status"] == "ok"
    with pytest.raises(Unauthenticated) as caught:
        Twin(url, "sync").ask("list_runs")

    assert caught.value.err_id == "ERR-PYOCO-0014"


def test_a_wrong_key_is_refused_and_is_not_in_the_error(url: str) -> None:
    with pytest.raises(Forbidden) as caught:
        Twin(url, "sync", api_key="pyoco_wrong_s3cret").ask("submit_run", "hello")

    assert caught.value.err_id == "ERR-PYOCO-0015"
    assert "s3cret" not in f"{caught.value!r} {caught.value.request.headers} {caught.value.response.request.headers}"
