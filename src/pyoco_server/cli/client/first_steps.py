"""The commands that need no server: a first flow to start from, completion for the shell, the version."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from pyoco_server import __version__
from pyoco_server.cli import output
from pyoco_server.cli.client import screen
from pyoco_server.cli.correction import PROGRAM
from pyoco_server.errors import InvalidUsage

FILES = ("flow.yaml", "tasks.py")
# A .zshrc that nobody has set up knows no compdef.
ZSH_COMPLETES = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; made if it is not there.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write a first flow.yaml with its tasks.py, ready to run."""
    from importlib.resources import files

    there = [name for name in FILES if (folder / name).exists()]
    if there and not force:
        raise InvalidUsage(
            f"{', '.join(str(folder / name) for name in there)} would be overwritten",
            example=f"pyoco-client init {folder / 'first'} (or add --force)",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            text = files("pyoco_server.cli.client").joinpath("first_flow", name).read_text("utf-8")
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise InvalidUsage(f"{error.filename}: {error.strerror}", example="pyoco-client init my-flow") from error
    for name in FILES:
        screen.write(f"{output.in_words('written', '作成しました')}: {folder / name}")
    screen.write(output.in_words("next:", "次のコマンド:"))
    quoted = shlex.quote(str(folder))
    screen.write(f"  cd {quoted} && pyoco-server up --with-worker")
    screen.write(
        f"  cd {quoted} && pyoco-client submit-yaml --workflow-file flow.yaml --flow-name hello --watch   "
        + output.in_words("# in another terminal", "# 別の端末で")
    )


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)
    ],
) -> None:
    """Print the script that lets a shell complete commands and options."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # where typer itself takes it from

    variable = f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE"
    script = get_completion_script(prog_name=PROGRAM, complete_var=variable, shell=shell)
    if shell == "zsh":
        script = script.replace("\ncompdef ", f"\n{ZSH_COMPLETES}\ncompdef ")
    screen.write(script)


def version() -> None:
    """Print the version of this client; `doctor` shows the server's."""
    screen.write(version_line())


def version_line() -> str:
    python = ".".join(str(part) for part in sys.version_info[:3])
    return f"{PROGRAM} {__version__} (Python {python})"
