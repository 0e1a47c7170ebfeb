"""`pyoco-client logs`: what a run has written, for people with time and task, for programs as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.following import run_goes_on
from pyoco_server.cli.client.log_lines import MOST_LINES, writer
from pyoco_server.cli.client.options import RunIdArgument, RunIdOption, TextOutput, the_run
from pyoco_server.cli.client.render import Json

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient


@reaches_server
def logs(
    where: Where,
    run_id: RunIdArgument = None,
    run_id_option: RunIdOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what the run writes, until it is over.")
    ] = False,
    tail: Annotated[int | None, typer.Option(min=1, max=MOST_LINES, help="Only the last so many lines.")] = None,
    form: TextOutput = "text",
) -> None:
    """Show what a run has written: each line with its time (UTC) and its task."""
    wanted = the_run(run_id, run_id_option)
    with connected(where) as client:
        show = writer(form)
        if follow:
            with run_goes_on(wanted):
                for line in client.follow_run_logs(wanted, tail=tail):
                    show(line)
            return
        for item in _written_so_far(client, wanted, tail):
            show(item)


def _written_so_far(client: PyocoHttpClient, run_id: str, tail: int | None) -> Iterator[Json]:
    page = client.get_run_logs(run_id, tail=tail, limit=None if tail else MOST_LINES)
    yield from page["items"]
    while page["items"] and tail is None and not page["complete"]:
        page = client.get_run_logs(run_id, since_token=page["next_token"], limit=MOST_LINES)
        yield from page["items"]
