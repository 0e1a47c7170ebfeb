"""The commands of the wheel registry: list, history, upload, download, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.options import ListOutput, split_labels
from pyoco_server.cli.client.run_view import joined
from pyoco_server.cli.stdout import console, is_terminal, show, write_json
from pyoco_server.cli.suggestions import invalid
from pyoco_server.cli.tables import Table, moment, size
from pyoco_server.errors import InvalidUsage

EXAMPLE_WHEEL = "demo-1.0-py3-none-any.whl"
FRAMES_PER_SEC = 10
WHEELS = Table(
    ("WHEEL", "name"),
    ("SIZE", "size_bytes", size),
    ("TAGS", "tags"),
    ("TENANT", "tenant_id"),
    ("MODIFIED", "modified", moment),
    ("SHA256", lambda wheel: str(wheel.get("sha256_hex") or "")[:12]),
)
WHEEL_EVENTS = Table(
    ("WHEN", "occurred_at", moment),
    ("ACTION", "action"),
    ("WHEEL", "wheel_name"),
    ("TAGS", "tags"),
    ("ACTOR", lambda event: joined(event.get("actor"), "tenant_id", "api_key_id", "sub", separator="/")),
    ("SOURCE", lambda event: joined(event.get("source"), "client")),
)

SharedOption = Annotated[bool, Option("--shared", help="The one that all tenants share.")]
TenantOption = Annotated[str | None, Option("--tenant", help="That of this tenant; for administrators.")]
NameOption = Annotated[str, Option("--wheel-name", metavar="NAME", help=f"As in {EXAMPLE_WHEEL}.")]


@remote_command
def wheels(target: Target, form: ListOutput = "json") -> None:
    """List the wheels of your tenant and the shared ones, by name."""
    with connected(target) as client:
        found = client.list_wheels()
    show(form, found, WHEELS)


@remote_command
def history(
    target: Target,
    limit: Annotated[int | None, Option(min=1, max=500, help="How many at most; 100 by default.")] = None,
    wheel_name: Annotated[str | None, Option("--wheel-name", metavar="NAME", help="Only events of this wheel.")] = None,
    action: Annotated[Literal["upload", "delete"] | None, Option(help="Only events of this kind.")] = None,
    form: ListOutput = "json",
) -> None:
    """List uploads and deletions of wheels, newest first."""
    if wheel_name is not None:
        valid_wheel_name(wheel_name)
    with connected(target) as client:
        events = client.list_wheel_history(limit=limit, wheel_name=wheel_name, action=action)
    show(form, events, WHEEL_EVENTS)


@remote_command
def upload(
    target: Target,
    wheel_file: Annotated[Path, Option("--wheel-file", metavar="FILE", help="The wheel, under its own name.")],
    tags: Annotated[
        list[str] | None, Option("--tags", metavar="TAG,…", help="Only workers of these tags; repeatable.")
    ] = None,
    shared: Annotated[bool, Option("--shared", help="For runs of all tenants; for administrators.")] = False,
    replace: Annotated[bool, Option("--replace/--no-replace", help="Has no effect; for older scripts.")] = True,
) -> None:
    """Register a wheel for your tenant; workers install it. Its version must be newer than every registered one."""
    if not wheel_file.is_file():
        detail = f"--wheel-file: there is no file {str(wheel_file)[:200]!r}"
        raise invalid(detail, {str(wheel_file): f"dist/{EXAMPLE_WHEEL}"})
    name = valid_wheel_name(wheel_file.name, wheel_file)
    then = output.localized("the server checks and stores it", "サーバーが検査・保存中")
    with _file_errors("--wheel-file"), connected(target) as client, _progress_bar(name, then) as progress:
        wheel = client.upload_wheel(
            name, wheel_file, replace=replace, tags=split_labels(tags), shared=shared, progress=progress
        )
    write_json(wheel)


@remote_command
def download(
    target: Target,
    wheel_name: NameOption,
    to: Annotated[Path, Option("--to", metavar="PATH", help="A file or folder; by default the current one.")] = Path(),
    shared: SharedOption = False,
    tenant: TenantOption = None,
) -> None:
    """Download a wheel. A partial download writes nothing."""
    name = valid_wheel_name(wheel_name)
    if not (to.is_dir() or to.parent.is_dir()):
        raise invalid(f"--to: there is no folder {str(to.parent)[:200]!r}", {str(to): "."})
    with _file_errors("--to"), connected(target) as client, _progress_bar(name) as progress:
        received = client.download_wheel(name, to, shared=shared, tenant_id=tenant, progress=progress)
    write_json({**received, "path": str(to / name if to.is_dir() else to)})


@remote_command
def delete(target: Target, wheel_name: NameOption, shared: SharedOption = False, tenant: TenantOption = None) -> None:
    """Remove a wheel. Workers uninstall it at their next synchronisation."""
    name = valid_wheel_name(wheel_name)
    with connected(target) as client:
        write_json(client.delete_wheel(name, shared=shared, tenant_id=tenant))


@contextmanager
def _file_errors(option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidUsage(f"{option}: {error.strerror}: {str(error.filename)[:200]!r}") from error


def valid_wheel_name(text: str, path: Path | None = None) -> str:
    """The name, which cannot lead to another path of the server; the server checks the rest."""
    if not text.endswith(".whl") or not text.isprintable() or any(sign in text for sign in "/\\?#%"):
        detail = f"{text[:80]!r} is not the name of a wheel (*.whl)"
        raise invalid(detail, {str(path or text): EXAMPLE_WHEEL})
    return text


@contextmanager
def _progress_bar(what: str, then: str | None = None) -> Iterator[Callable[[int, int | None], None] | None]:
    """A function that draws how many bytes of how many are done; None if stderr is not a terminal.

    The bar disappears at the end of the block. At 100 % it shows `then`: a full bar alone would look stuck.
    """
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True, refresh_per_second=FRAMES_PER_SEC) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, description=then if then and done == total else what)

        yield update
