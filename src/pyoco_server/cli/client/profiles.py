"""The profiles of `pyoco-client`: server, credentials, language and form of output, in a TOML file for its owner only.

profile = "work"              # chosen by `config use`

[profiles.work]
server = "https://pyoco.example.org"
token = "…"
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyoco_server.errors import InvalidUsage

KEYS = ("server", "api-key", "token", "language", "output")
SECRET_KEYS = ("api-key", "token")
CHOICES = {"language": ("en", "ja"), "output": ("json", "table", "status", "text")}
DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
EXAMPLE = "pyoco-client config set server http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The values of a profile; None where it has none."""

    name: str = DEFAULT
    server: str | None = None
    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    language: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The file: its profiles by name, and the one to use unless another is named."""

    profile: str | None = None
    profiles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def config_path() -> Path:
    return _folder("XDG_CONFIG_HOME", ".config") / "config.toml"


def state_folder() -> Path:
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, below_home: str) -> Path:
    given = os.environ.get(variable, "")
    # The specification says to ignore a relative path.
    return (Path(given) if given.startswith("/") else Path("~").expanduser() / below_home) / "pyoco"


def read_config() -> Config:
    """The file as it is; an empty config without one."""
    path = config_path()
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error.strerror if isinstance(error, OSError) else "not UTF-8") from error
    import tomllib  # here: most machines have no config file

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(path, error) from error
    profiles = found.get("profiles", {})
    if not isinstance(profiles, dict) or not all(_is_profile(one) for one in profiles.values()):
        raise _unreadable(path, "profiles are tables of texts")
    return Config(profile=_text(found.get("profile")), profiles=profiles)


def _is_profile(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _unreadable(path: Path, why: object) -> InvalidUsage:
    return InvalidUsage(f"the config file {path} cannot be read: {why}", example=EXAMPLE)


def write_config(config: Config) -> None:
    """Replace the file at once; it and its folder are readable by their owner only."""
    lines = [] if config.profile is None else [f"profile = {_quoted(config.profile)}"]
    for name, values in config.profiles.items():
        lines += ["", f"[profiles.{_quoted(name)}]", *(f"{_quoted(key)} = {_quoted(values[key])}" for key in values)]
    path = config_path()
    try:
        path = path.resolve()  # the file may be a link into a folder of dotfiles
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, "\n".join(lines).strip() + "\n")
    except OSError as error:
        raise InvalidUsage(f"the config file {path} cannot be written: {error.strerror}", example=EXAMPLE) from error


def write_private(path: Path, text: str) -> None:
    """Replace a file at once; only its owner can read it, from its first byte on."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        try:
            file.write(text)
            file.close()
            Path(file.name).replace(path)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise


def _quoted(text: str) -> str:
    """A basic string of TOML: the escapes of JSON, and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def profile_name(given: str | None, config: Config) -> str:
    """The profile to use: the option, PYOCO_PROFILE, that of `config use`, or `default`."""
    name = given or os.environ.get("PYOCO_PROFILE") or config.profile or DEFAULT
    if not _NAME.fullmatch(name):
        raise InvalidUsage(
            f"{name[:80]!r} is not the name of a profile: letters, digits, - and _",
            example="pyoco-client --profile work config list",
        )
    return name


def load_profile(given: str | None) -> Profile:
    """The profile to use. One that was named must exist; without a config file the default one is empty."""
    config = read_config()
    name = profile_name(given, config)
    if name not in config.profiles and name != DEFAULT:
        known = ", ".join(config.profiles) or "none"
        raise InvalidUsage(
            f"there is no profile {name}; there are: {known}",
            example=f"pyoco-client --profile {name} config set server http://127.0.0.1:8000",
        )
    values = config.profiles.get(name, {})
    for key, choices in CHOICES.items():
        if key in values and values[key] not in choices:
            raise _unreadable(config_path(), f"{key} of the profile {name} is one of: {', '.join(choices)}")
    known_values = {key.replace("-", "_"): values.get(key) or None for key in KEYS}
    return Profile(name=name, **known_values)
