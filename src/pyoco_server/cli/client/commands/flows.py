"""The commands about flows: list them, and draw the graph of a flow or of a stored graph."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.graph_view import (
    about_flow,
    as_mermaid,
    as_text,
    drawing_of,
    params_line,
    recent_line,
    version_on,
)
from pyoco_server.cli.stdout import show, write
from pyoco_server.cli.suggestions import invalid
from pyoco_server.cli.tables import Table, text

FLOWS = Table(
    ("FLOW", "name"),
    ("TAGS", "tags"),
    ("WORKERS", "workers"),
    ("PARAMETERS", params_line),
    ("LAST_RUNS", recent_line),
)


@remote_command
def flows(
    target: Target,
    q: Annotated[str | None, Option("--q", metavar="PREFIX", help="Only names with this prefix.")] = None,
    tag: Annotated[str | None, Option("--tag", "--queue", help="Only flows that are served under this tag.")] = None,
    limit: Annotated[int | None, Option(min=1, max=100, help="How many at most; 50 by default.")] = None,
    cursor: opt.CursorOption = None,
    form: opt.TableOutput = "table",
) -> None:
    """List the flows that running workers announce, with parameters (* is required) and their last runs."""
    with connected(target) as client:
        page = client.list_flows(q=q, tag=tag, limit=limit, cursor=cursor)
    show(form, page, FLOWS)


@remote_command
def graph(
    target: Target,
    flow: Annotated[str, Argument(metavar="FLOW", help="A flow that workers announce, or a stored graph.")],
    mermaid: Annotated[bool, Option("--mermaid", help="As a Mermaid flowchart, for Markdown.")] = False,
    tag: Annotated[str | None, Option("--tag", help="The version that is served under this tag.")] = None,
) -> None:
    """Draw a graph as text: one line per task, with the tasks before it. Parameters with a star are required."""
    from pyoco_server.http_client import NotFound

    with connected(target) as client:
        try:
            found: Any = client.get_flow(flow)
        except NotFound:
            stored = None if tag is not None else _stored(client, flow)
            if stored is None:
                raise
            _write(stored, mermaid)
            return
        except ValueError as error:
            raise invalid(f"{flow[:80]!r} is not the name of a flow", {flow: "hello"}) from error
    version = version_on(found["versions"], tag)
    if version is None:
        raise invalid(f"{flow[:80]!r} is not served under the tag {tag}", {str(tag): found["tags"][0]})
    if not mermaid:
        for line in about_flow(found, version):
            write(line)
    _write(version, mermaid)
    others = [text(one["tags"]) for one in found["versions"] if one is not version]
    if others:
        shown = "; ".join(others)
        output.print_stderr(
            output.localized(
                f"workers announce other versions of it, under these tags: {shown} (see --tag)",
                f"別の版も公開されています。tag: {shown}（--tag で選択）",
            )
        )


def _stored(client: Any, name: str) -> Any:
    from pyoco_server.http_client import NotFound

    try:
        return client.get_graph(name)
    except (NotFound, ValueError):
        return None


def _write(graph: Any, mermaid: bool) -> None:
    drawing = drawing_of(graph)
    if not drawing.nodes:
        output.print_stderr(output.localized("the graph is not known", "graph は不明です"))
        return
    for line in as_mermaid(drawing) if mermaid else as_text(drawing):
        write(line)
    if len(drawing.nodes) > 1 and not drawing.edges:
        output.print_stderr(
            output.localized(
                "the tasks have no fixed order: they run in parallel, or loops and branches decide while it runs",
                "task の順序は固定されていません（並列実行か、実行時にループ・分岐で決まります）",
            )
        )
