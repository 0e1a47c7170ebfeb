"""The option --version of every program."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer import Option

from pyoco_server import __version__
from pyoco_server.cli import stdout

HELP_NAMES = {"help_option_names": ["--help", "-h"]}
"""The context settings of every program."""


def version_line(program: str) -> str:
    python = ".".join(str(part) for part in sys.version_info[:3])
    return f"{program} {__version__} (Python {python})"


def show_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        stdout.write(version_line(ctx.find_root().info_name or ""))
        raise typer.Exit


VersionOption = Annotated[
    bool, Option("--version", is_eager=True, callback=show_version, help="Print the version and exit.")
]
