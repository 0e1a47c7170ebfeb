"""The commands about dead letters: look at jobs that went wrong, and run one of them again."""

from __future__ import annotations

from typing import Annotated

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.following import exit_code, follow
from pyoco_server.cli.client.options import ListOutput, TimeoutOption, check_timeout
from pyoco_server.cli.client.render import LETTER_HEAD, letter_row


@reaches_server
def dlq(
    where: Where,
    reason: Annotated[
        str | None, typer.Option(help="Only of this reason, such as execution_error or max_deliver.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only jobs with this routing tag.")] = None,
    flow: Annotated[str | None, typer.Option("--flow", help="Only jobs of this flow.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=200, help="How many at most; 50 by default.")] = None,
    cursor: Annotated[str | None, typer.Option(help="Go on where a page ended: its next_cursor.")] = None,
    form: ListOutput = "json",
) -> None:
    """List the jobs that went wrong, newest first."""
    with connected(where) as client:
        page = client.list_dead_letters(reason=reason, tag=tag, flow=flow, limit=limit, cursor=cursor)
    if form == "json":
        screen.write_json(page)
    else:
        screen.write_page(page, LETTER_HEAD, letter_row)


@reaches_server
def dlq_replay(
    where: Where,
    seq: Annotated[
        int, typer.Option("--seq", min=1, help="The letter's number, as `dlq` shows it.", show_default=False)
    ],
    watch: Annotated[bool, typer.Option("--watch", help="Show the new run while it runs, as `watch` does.")] = False,
    timeout_sec: TimeoutOption = None,
) -> int:
    """Run the job of a dead letter again, as a new run with the same flow, params, tag, labels and YAML."""
    check_timeout(timeout_sec, waits=watch)
    with connected(where) as client:
        again = client.replay_dead_letter(seq)
        if not watch:
            screen.write_json(again)
            return output.OK
        run_id = again["run_id"]
        output.say(output.in_words(f"submitted: {run_id}", f"投入しました: {run_id}"))
        return exit_code(follow(client, run_id, "status", timeout_sec))
