"""Help pages and usage errors start at once: they load neither server, broker client nor flow engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pyoco_server

SRC = Path(pyoco_server.__file__).parents[1]
PROGRAM = """
import sys
sys.path.insert(0, {src!r})
sys.argv = {argv!r}
from pyoco_server.cli.{module} import main
try:
    main()
finally:
    print(*sys.modules, sep=",")
"""
MODULES = {
    "pyoco-server": "server",
    "pyoco-worker": "worker",
    "pyoco-server-admin": "admin",
    "pyoco-client": "client.program",
}
# Each takes longer to load than what a help page needs. Not pydantic: typer checks values with it.
HEAVY = {
    *("asyncio", "fastapi", "starlette", "uvicorn", "uvloop", "nats", "pyoco", "httpx", "ssl", "sqlite3"),
    *("msgspec", "orjson", "prometheus_client", "rich", "yaml"),
}
SERVER = {"pyoco_server.bootstrap", "pyoco_server.config", "pyoco_server.http_api", "pyoco_server.worker"}


def loaded_by(command: str, language: str) -> set[str]:
    name, *arguments = command.split()
    program = PROGRAM.format(src=str(SRC), argv=[name, *arguments], module=MODULES[name])
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env={"LC_ALL": language}
    )
    return set(ended.stdout.splitlines()[-1].split(","))


@pytest.mark.parametrize(
    "command",
    [
        *(f"{name} --help" for name in MODULES),
        *(f"{name} --version" for name in MODULES),
        *(f"{name} --no-such-option" for name in MODULES),
        *("pyoco-server up --help", "pyoco-server up --port x", "pyoco-server up --worker-tags a.b"),
        *(
            "pyoco-worker --concurrency 0",
            "pyoco-server-admin api-key create --help",
            "pyoco-server-admin api-key create",
        ),
        *("pyoco-client submit --help", "pyoco-client list --limit 900", "pyoco-client get ../x"),
    ],
)
def test_a_help_page_or_usage_error_loads_nothing_heavy_and_no_japanese_for_english(command: str) -> None:
    loaded = loaded_by(command, "C.UTF-8")

    assert "typer" in loaded
    assert loaded & (HEAVY | SERVER) == set()
    assert {name for name in loaded if name.startswith("pyoco_server.japanese.")} <= {"pyoco_server.japanese.catalogue"}


def test_a_japanese_help_page_loads_the_texts_of_help_pages_only() -> None:
    loaded = loaded_by("pyoco-server --help", "ja_JP.UTF-8")

    assert "pyoco_server.japanese.commands.programs" in loaded
    assert not loaded & (HEAVY | SERVER | {"pyoco_server.japanese.messages", "pyoco_server.japanese.openapi"})
