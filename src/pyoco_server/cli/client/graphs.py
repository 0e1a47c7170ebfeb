"""The commands about graphs: list them, and put one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pyoco_server.cli.client import execution_view as view
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.options import CursorOption, LimitOption, ListOutput
from pyoco_server.cli.client.params import parse_json
from pyoco_server.cli.correction import corrected
from pyoco_server.errors import InvalidUsage

# Far beyond what the server takes; only so that a wrong path (a device, a data file) is told at once.
MAX_GRAPH_BYTES = 16 * 1024 * 1024


@reaches_server
def graphs(
    where: Where,
    q: Annotated[str | None, typer.Option("--q", metavar="PREFIX", help="Only ids that begin so.")] = None,
    limit: LimitOption = None,
    cursor: CursorOption = None,
    form: ListOutput = "json",
) -> None:
    """List the graphs that were put and the flows that workers announce, by id."""
    with connected(where) as client:
        page = client.list_graphs(q=q, limit=limit, cursor=cursor)
    if form == "json":
        screen.write_json(page)
    else:
        screen.write_page(page, view.GRAPH_HEAD, view.graph_row)


@reaches_server
def graph_put(
    where: Where,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The graph, as JSON or YAML.", show_default=False)],
    graph_id: Annotated[
        str | None,
        typer.Option("--graph-id", metavar="NAME", help="Its name; by default the file's, without its ending."),
    ] = None,
    expected_version: Annotated[
        int | None, typer.Option(min=0, help="Refuse unless this is the present version; 0: unless it is new.")
    ] = None,
) -> None:
    """Keep a graph under a name. A change is a new version; the same graph again changes nothing."""
    name = _graph_name(graph_id or file.stem)
    document = _read(file)
    with connected(where) as client:
        screen.write_json(client.put_graph(name, document, expected_version))


def _read(file: Path) -> dict[str, Any] | bytes:
    """JSON by its ending, else YAML as it is: the server says with its line what is wrong with that."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_GRAPH_BYTES + 1)
    except OSError as error:
        raise _refused(file, str(error.strerror)) from error
    if len(raw) > MAX_GRAPH_BYTES:
        raise _refused(file, f"larger than {MAX_GRAPH_BYTES} bytes")
    if file.suffix != ".json":
        return raw
    try:
        document = parse_json(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise _refused(file, f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refused(file, "not a JSON object")
    return document


def _refused(file: Path, why: str) -> InvalidUsage:
    return InvalidUsage(f"{file}: {why}", example=corrected(sys.argv[1:], replace={str(file): "release.yaml"}))


def _graph_name(text: str) -> str:
    """A name that can stand in a path; whether it may be a graph's, the server knows best."""
    if text in ("", ".", "..") or "/" in text or not text.isprintable():
        raise InvalidUsage(
            f"{text[:80]!r} is not the name of a graph", example=corrected(sys.argv[1:], replace={text: "release"})
        )
    return text
