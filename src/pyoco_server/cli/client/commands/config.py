"""The commands about the config file: set, get, unset and list the values of profiles, and choose a profile."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Literal

import typer
from typer import Argument

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.connection import ProfileOption, Target
from pyoco_server.cli.client.profiles import (
    CHOICES,
    EXAMPLE,
    SECRET_KEYS,
    Config,
    config_path,
    profile_name,
    read_config,
    write_config,
)
from pyoco_server.cli.stdout import show, write
from pyoco_server.cli.suggestions import PASSWORD, invalid
from pyoco_server.cli.tables import Table
from pyoco_server.cli.terminal_escape import escape_line
from pyoco_server.errors import InvalidUsage

MASK = "********"
KeyArgument = Annotated[
    Literal["server", "api-key", "token", "language", "output"],
    Argument(metavar="KEY", help="server, api-key, token, language or output."),
]
VALUES = Table(
    ("", lambda one: "*" if one["current"] else " "), ("PROFILE", "profile"), ("KEY", "key"), ("VALUE", "value")
)


def set_value(
    ctx: typer.Context,
    key: KeyArgument,
    value: Annotated[
        str | None, Argument(metavar="VALUE", help="Without it (better for secrets) it is read from stdin.")
    ] = None,
    profile: ProfileOption = None,
) -> None:
    """Store a value in a profile, which is created if it is new."""
    config = read_config()
    name = _chosen(ctx, profile, config)
    text = _read_value(key) if value is None else value
    _check(key, text)
    _write(config, name, dict(config.profiles.get(name, {})) | {key: text})


def _read_value(key: str) -> str:
    """A line of stdin, which a terminal does not show if it is a secret."""
    if sys.stdin.isatty() and key in SECRET_KEYS:
        from getpass import getpass

        return getpass(f"{key}: ", stream=sys.stderr).strip()
    if sys.stdin.isatty():
        output.print_stderr(f"{key}:")
    return sys.stdin.readline().strip()


def _check(key: str, text: str) -> None:
    if not text.isprintable() or not text.strip():
        raise InvalidUsage(f"no value for {key} that can be stored", example=EXAMPLE)
    if key in CHOICES and text not in CHOICES[key]:
        raise invalid(f"{key} is one of: {', '.join(CHOICES[key])}", {text: CHOICES[key][0]})
    # The SDK has the rules for the others.
    given = {"server": "http://127.0.0.1:8000"} | {key.replace("-", "_"): text}
    if key not in CHOICES:
        Target(**given).client().close()


def get_value(ctx: typer.Context, key: KeyArgument, profile: ProfileOption = None) -> None:
    """Print a value of a profile, also a secret one."""
    config = read_config()
    name = _chosen(ctx, profile, config)
    found = config.profiles.get(name, {}).get(key)
    if not found:
        raise InvalidUsage(f"the profile {name} has no {key}", example="pyoco-client config list")
    write(escape_line(found))


def unset_value(ctx: typer.Context, key: KeyArgument, profile: ProfileOption = None) -> None:
    """Remove a value from a profile."""
    config = read_config()
    name = _chosen(ctx, profile, config)
    _write(config, name, {known: text for known, text in config.profiles.get(name, {}).items() if known != key})


def _write(config: Config, name: str, values: dict[str, str]) -> None:
    write_config(replace(config, profiles={**config.profiles, name: values}))


def list_values(ctx: typer.Context, profile: ProfileOption = None, form: opt.PlainOutput = "table") -> None:
    """List the profiles and their values; secrets are masked, * marks the profile in use."""
    config = read_config()
    current = _chosen(ctx, profile, config)
    rows = [
        {"profile": name, "key": key, "value": _shown(key, value), "current": name == current}
        for name, values in config.profiles.items()
        for key, value in values.items()
    ]
    if form == "table":
        output.print_stderr(str(config_path()))
    show(form, rows, VALUES)


def _shown(key: str, value: str) -> str:
    return MASK if key in SECRET_KEYS else PASSWORD.sub("://…@", value)


def use(name: Annotated[str, Argument(metavar="PROFILE", help="The profile to use from now on.")]) -> None:
    """Choose the profile that is used unless --profile or PYOCO_PROFILE names another."""
    config = read_config()
    if name not in config.profiles:
        raise InvalidUsage(
            f"there is no profile {name[:80]}; there are: {', '.join(config.profiles) or 'none'}",
            example="pyoco-client --profile work config set server http://127.0.0.1:8000",
        )
    write_config(replace(config, profile=name))


def _chosen(ctx: typer.Context, profile: str | None, config: Config) -> str:
    before = ctx.find_root().obj or Target()
    return profile_name(profile or before.profile, config)
