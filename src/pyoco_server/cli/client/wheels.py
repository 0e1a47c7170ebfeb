"""The commands of the wheel registry: list, history, upload, download, delete."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.bar import progress_bar
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.options import ListOutput, labels
from pyoco_server.cli.client.render import WHEEL_EVENT_HEAD, WHEEL_HEAD, wheel_event_row, wheel_row
from pyoco_server.cli.correction import corrected
from pyoco_server.errors import InvalidUsage

EXAMPLE_WHEEL = "demo-1.0-py3-none-any.whl"

NameOption = Annotated[str, typer.Option("--wheel-name", metavar="NAME", help=f"As in {EXAMPLE_WHEEL}.")]


@reaches_server
def wheels(where: Where, form: ListOutput = "json") -> None:
    """List the registered wheels, by name."""
    with connected(where) as client:
        found = client.list_wheels()
    if form == "json":
        screen.write_json(found)
    else:
        screen.write_table(WHEEL_HEAD, [wheel_row(wheel) for wheel in found])


@reaches_server
def history(
    where: Where,
    limit: Annotated[int | None, typer.Option(min=1, max=500, help="How many at most; 100 by default.")] = None,
    wheel_name: Annotated[
        str | None, typer.Option("--wheel-name", metavar="NAME", help="Only events of this wheel.")
    ] = None,
    action: Annotated[Literal["upload", "delete"] | None, typer.Option(help="Only events of this kind.")] = None,
    form: ListOutput = "json",
) -> None:
    """List what was done to wheels, and by whom, the newest first."""
    if wheel_name is not None:
        checked_name(wheel_name)
    with connected(where) as client:
        events = client.list_wheel_history(limit=limit, wheel_name=wheel_name, action=action)
    if form == "json":
        screen.write_json(events)
    else:
        screen.write_table(WHEEL_EVENT_HEAD, [wheel_event_row(event) for event in events])


@reaches_server
def upload(
    where: Where,
    wheel_file: Annotated[Path, typer.Option("--wheel-file", metavar="FILE", help="The wheel, under its own name.")],
    tags: Annotated[
        list[str] | None,
        typer.Option("--tags", metavar="TAG,…", help="Workers of these tags only; may be repeated. None: all workers."),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace/--no-replace", help="For older scripts; only newer versions are taken either way."),
    ] = True,
) -> None:
    """Register a wheel, for the workers to install. Its version must be newer than every registered one."""
    if not wheel_file.is_file():
        raise InvalidUsage(
            f"--wheel-file: there is no file {str(wheel_file)[:200]!r}",
            example=corrected(sys.argv[1:], replace={str(wheel_file): f"dist/{EXAMPLE_WHEEL}"}),
        )
    name = checked_name(wheel_file.name)
    then = output.in_words("the server checks and stores it", "サーバーが検査・保存中")
    with _on_disk("--wheel-file"), connected(where) as client, progress_bar(name, then) as progress:
        wheel = client.upload_wheel(name, wheel_file, replace=replace, tags=labels(tags), progress=progress)
    screen.write_json(wheel)


@reaches_server
def download(
    where: Where,
    wheel_name: NameOption,
    to: Annotated[Path, typer.Option("--to", metavar="PATH", help="A file or a folder; by default this one.")] = Path(),
) -> None:
    """Fetch a wheel: all of it, or nothing is written."""
    name = checked_name(wheel_name)
    if not (to.is_dir() or to.parent.is_dir()):
        raise InvalidUsage(f"--to: there is no folder {str(to.parent)[:200]!r}", example=f"mkdir -p {to.parent}")
    with _on_disk("--to"), connected(where) as client, progress_bar(name) as progress:
        received = client.download_wheel(name, to, progress=progress)
    screen.write_json({**received, "path": str(to / name if to.is_dir() else to)})


@reaches_server
def delete(where: Where, wheel_name: NameOption) -> None:
    """Remove a wheel. Workers that installed it take it away at their next look."""
    name = checked_name(wheel_name)
    with connected(where) as client:
        screen.write_json(client.delete_wheel(name))


@contextmanager
def _on_disk(option: str) -> Iterator[None]:
    """What this machine's disk refuses is for its owner to mend."""
    try:
        yield
    except OSError as error:
        raise InvalidUsage(f"{option}: {error.strerror}: {str(error.filename)[:200]!r}") from error


def checked_name(text: str) -> str:
    """A name that cannot lead to another path of the server; whether it is a wheel's, the server knows best."""
    if not text.endswith(".whl") or not text.isprintable() or any(sign in text for sign in "/\\?#%"):
        raise InvalidUsage(
            f"{text[:80]!r} is not the name of a wheel (*.whl)",
            example=corrected(sys.argv[1:], replace={text: EXAMPLE_WHEEL}),
        )
    return text
