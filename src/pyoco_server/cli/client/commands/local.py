"""The commands that need no server: `init`, `completion` and `version`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from pyoco_server.cli import output
from pyoco_server.cli.stdout import write
from pyoco_server.cli.suggestions import CLIENT as PROGRAM
from pyoco_server.cli.suggestions import command_line
from pyoco_server.cli.version import version_line
from pyoco_server.errors import InvalidUsage

FILES = ("flow.yaml", "tasks.py")
# An empty .zshrc has no compdef.
ZSH_COMPLETES = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


def init(
    folder: Annotated[Path, Argument(metavar="DIR", help="Where to write; created if missing.")] = Path(),
    force: Annotated[bool, Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write a first flow.yaml with its tasks.py, ready to run."""
    from importlib.resources import files

    existing = [name for name in FILES if (folder / name).exists()]
    if existing and not force:
        raise InvalidUsage(
            f"{', '.join(str(folder / name) for name in existing)} would be overwritten; --force replaces them",
            example=command_line(["init", str(folder / "first")]),
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            text = files("pyoco_server.cli.client").joinpath("first_flow", name).read_text("utf-8")
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise InvalidUsage(f"{error.filename}: {error.strerror}", example="pyoco-client init my-flow") from error
    for name in FILES:
        write(f"{output.localized('written', '作成しました')}: {folder / name}")
    write(output.localized("next:", "次のコマンド:"))
    quoted = shlex.quote(str(folder))
    write(f"  cd {quoted} && pyoco-server up --with-worker")
    write(
        f"  cd {quoted} && pyoco-client submit-yaml --workflow-file flow.yaml --flow-name hello --watch   "
        + output.localized("# in another terminal", "# 別の端末で")
    )


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the script for completion of commands and options in a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # typer has no public way

    variable = f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE"
    script = get_completion_script(prog_name=PROGRAM, complete_var=variable, shell=shell)
    if shell == "zsh":
        script = script.replace("\ncompdef ", f"\n{ZSH_COMPLETES}\ncompdef ")
    write(script)


def version() -> None:
    """Print the version of this client; `doctor` shows that of the server."""
    write(version_line(PROGRAM))
