"""The dotenv file: syntax, precedence, and errors without values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig, load_dotenv
from pyoco_server.errors import InvalidUsage

Loader = Callable[..., dict[str, str]]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loader:
    """Loads a dotenv file with the given text into an environment, from the folder it lies in."""
    monkeypatch.chdir(tmp_path)

    def load(text: str, **environ: str) -> dict[str, str]:
        Path(".env").write_text(text, "utf-8")
        load_dotenv(environ)
        return environ

    return load


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=value", "value"),
        ("export KEY=value", "value"),
        ("  KEY = two words  ", "two words"),
        ("KEY=value # a comment", "value"),
        ("KEY=a#b", "a#b"),
        ("KEY=#b", "#b"),
        ("KEY= # a comment", ""),
        ("KEY=", ""),
        ("KEY=''", ""),
        ("KEY='a # b' # a comment", "a # b"),
        ('KEY="it\'s"', "it's"),
        ("KEY='$HOME ${HOME} \\n'", "$HOME ${HOME} \\n"),
        ("KEY=$HOME", "$HOME"),
        ("KEY=a=b", "a=b"),
        ("KEY=日本", "日本"),
        ("\ufeffKEY=value", "value"),
        ("KEY=old\nKEY=new", "new"),
        ("# a comment\n\n   \nKEY=value\r\n", "value"),
    ],
)
def test_a_line_sets_its_variable(load: Loader, line: str, value: str) -> None:
    assert load(line) == {"KEY": value}


@pytest.mark.parametrize(
    "line", ["KEY", "=value", "1KEY=value", "KEY='open", 'KEY="open', "KEY='a'b", "export", "A-B=c"]
)
def test_a_malformed_line_is_refused_with_file_and_number_but_not_echoed(load: Loader, line: str) -> None:
    with pytest.raises(InvalidUsage) as refused:
        load(f"FINE=1\n{line}\n")

    assert refused.value.detail.startswith(".env, line 2:")
    assert refused.value.facts == {"file": ".env", "line": 2}
    assert "open" not in refused.value.detail


def test_a_file_with_a_malformed_line_changes_nothing(load: Loader) -> None:
    environ: dict[str, str] = {}
    Path(".env").write_text("FINE=1\nnonsense\n")

    with pytest.raises(InvalidUsage):
        load_dotenv(environ)

    assert environ == {}


def test_a_variable_that_is_set_is_never_overridden_even_when_empty(load: Loader) -> None:
    assert load("A=file\nB=file\nC=file", A="set", B="") == {"A": "set", "B": "", "C": "file"}


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_missing_default_file_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_folder: bool) -> None:
    monkeypatch.chdir(tmp_path)
    if is_folder:
        Path(".env").mkdir()
    environ: dict[str, str] = {}

    load_dotenv(environ)

    assert environ == {}


def test_a_requested_file_must_exist(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.env")

    with pytest.raises(InvalidUsage, match=r"PYOCO_ENV_FILE is .*missing\.env"):
        load_dotenv({"PYOCO_ENV_FILE": missing})


def test_an_inaccessible_path_counts_as_missing() -> None:
    too_long = "x" * 300  # like a folder without permission, for every user

    with pytest.raises(InvalidUsage, match="accepted: a file that exists"):
        load_dotenv({"PYOCO_ENV_FILE": too_long})


def test_a_requested_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "my.env").write_text("KEY=value")
    environ = {"PYOCO_ENV_FILE": str(tmp_path / "my.env")}

    load_dotenv(environ)

    assert environ["KEY"] == "value"


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my.env").write_bytes(b"KEY=\xff\xfe")

    with pytest.raises(InvalidUsage, match=r"my\.env: cannot be read as UTF-8 text"):
        load_dotenv({"PYOCO_ENV_FILE": str(tmp_path / "my.env")})


def test_loading_can_be_disabled(load: Loader) -> None:
    assert load("nonsense", PYOCO_LOAD_DOTENV="0") == {"PYOCO_LOAD_DOTENV": "0"}


def test_a_bad_switch_is_refused(load: Loader) -> None:
    with pytest.raises(InvalidUsage, match="PYOCO_LOAD_DOTENV is 'maybe'"):
        load("", PYOCO_LOAD_DOTENV="maybe")


def test_the_settings_of_the_process_include_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("PYOCO_DEFAULT_TAG=from-file\nPYOCO_LOG_LEVEL=DEBUG\n")
    # Set first, so that monkeypatch removes the variable after the test.
    for variable in ("PYOCO_DEFAULT_TAG", "PYOCO_LOAD_DOTENV", "PYOCO_ENV_FILE"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PYOCO_LOG_LEVEL", "ERROR")

    config = NatsBackendConfig.from_env()

    assert (config.default_tag, config.log_level) == ("from-file", "ERROR")
