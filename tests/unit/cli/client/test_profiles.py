"""Profiles: the config file, and which values win."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyoco_server.cli.client.connection import Target
from pyoco_server.cli.client.profiles import Config, config_path, load_profile, read_config, write_config
from pyoco_server.errors import InvalidUsage

WORK = {"server": "http://work:1", "token": 'se"cret\\😀'}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("PYOCO_SERVER", "PYOCO_API_KEY", "PYOCO_TOKEN", "PYOCO_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def headers(target: Target) -> tuple[str, str | None, str | None]:
    with target.client() as client:
        sent = client._connection.headers
        return client.base_url, sent.get("X-API-Key"), sent.get("Authorization")


def test_a_written_config_is_read_back_and_private() -> None:
    config = Config(profile="work", profiles={"work": WORK, "home-2": {"language": "ja"}})

    write_config(config)

    assert read_config() == config
    assert config_path().stat().st_mode & 0o777 == 0o600
    assert config_path().parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in config_path().parent.iterdir()] == ["config.toml"]


def test_a_linked_config_file_stays_a_link(folder: Path) -> None:
    dotfiles = folder / "dotfiles.toml"
    dotfiles.write_text("")
    config_path().parent.mkdir()
    config_path().symlink_to(dotfiles)

    write_config(Config(profiles={"work": WORK}))

    assert config_path().is_symlink()
    assert "http://work:1" in dotfiles.read_text()


@pytest.mark.parametrize(
    "text", ["profile = ", "profiles = 3", "[profiles.default]\nserver = 3", '[profiles.default]\noutput = "xml"']
)
def test_an_invalid_config_is_refused_with_its_path(text: str) -> None:
    config_path().parent.mkdir()
    config_path().write_text(text)

    with pytest.raises(InvalidUsage, match=r"config\.toml cannot be read"):
        load_profile(None)


def test_the_option_wins_over_the_variable_and_the_variable_over_the_chosen_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("chosen", "variable", "option")
    write_config(Config(profile="chosen", profiles={name: {"server": f"http://{name}:1"} for name in names}))

    chosen = load_profile(None).server
    monkeypatch.setenv("PYOCO_PROFILE", "variable")

    assert (chosen, load_profile(None).server) == ("http://chosen:1", "http://variable:1")
    assert load_profile("option").server == "http://option:1"


def test_values_of_options_and_variables_win_over_those_of_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(Config(profile="work", profiles={"work": {"server": "http://work:1", "token": "t-profile"}}))

    assert headers(Target()) == ("http://work:1", None, "Bearer t-profile")
    assert headers(Target(api_key="k-option")) == ("http://work:1", "k-option", None)
    monkeypatch.setenv("PYOCO_TOKEN", "t-variable")
    assert headers(Target()) == ("http://work:1", None, "Bearer t-variable")


def test_the_credentials_of_a_profile_are_not_sent_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(Config(profiles={"default": {"server": "http://work:1", "token": "t-1", "api-key": "k-1"}}))

    other = headers(Target(server="http://other:1"))
    monkeypatch.setenv("PYOCO_SERVER", "http://third:1")

    assert other == ("http://other:1", None, None)
    assert headers(Target()) == ("http://third:1", None, None)
    assert headers(Target(server="http://work:1")) == ("http://work:1", "k-1", "Bearer t-1")
