"""The commands about stored graphs: list and put them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.params import parse_json, read_file
from pyoco_server.cli.stdout import show, write_json
from pyoco_server.cli.suggestions import invalid
from pyoco_server.cli.tables import Table, moment

GRAPHS = Table(
    ("GRAPH", "graphId"),
    ("VERSION", "version"),
    ("SOURCE", "source"),
    ("NODES", "nodeCount"),
    ("UPDATED", "updatedAt", moment),
    ("BY", "updatedBy"),
    ("TITLE", "title"),
)


@remote_command
def graphs(
    target: Target,
    q: Annotated[str | None, Option("--q", metavar="PREFIX", help="Only ids with this prefix.")] = None,
    limit: opt.LimitOption = None,
    cursor: opt.CursorOption = None,
    form: opt.ListOutput = "json",
) -> None:
    """List the stored graphs and the flows that workers announce, by id."""
    with connected(target) as client:
        page = client.list_graphs(q=q, limit=limit, cursor=cursor)
    show(form, page, GRAPHS)


@remote_command
def graph_put(
    target: Target,
    file: Annotated[Path, Argument(metavar="FILE", help="The graph, as JSON or YAML.")],
    graph_id: Annotated[
        str | None, Option("--graph-id", metavar="NAME", help="Its name; by default from the file.")
    ] = None,
    expected_version: Annotated[
        int | None, Option(min=0, help="Fail unless this is current; 0: unless it is new.")
    ] = None,
) -> None:
    """Store a graph under a name. A change makes a new version; an equal graph changes nothing."""
    name = graph_id or file.stem
    # Only what cannot be part of a path; the server checks the rest.
    if name in ("", ".", "..") or "/" in name or not name.isprintable():
        raise invalid(f"{name[:80]!r} is not the name of a graph", {name: "release"})
    document = _read_graph(file)
    with connected(target) as client:
        write_json(client.put_graph(name, document, expected_version))


def _read_graph(file: Path) -> dict[str, Any] | bytes:
    """A JSON file parsed, else the bytes: for YAML the server reports errors with their line."""
    replace = {str(file): "release.yaml"}
    raw = read_file(str(file), str(file), replace)
    if file.suffix != ".json":
        return raw
    try:
        document = parse_json(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise invalid(f"{file}: not JSON: {error}", replace) from error
    if not isinstance(document, dict):
        raise invalid(f"{file}: not a JSON object", replace)
    return document
