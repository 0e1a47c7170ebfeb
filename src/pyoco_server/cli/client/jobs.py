"""The commands about jobs: have one done, list and show them, label them, and put them away."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated, Literal

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client import job_view as view
from pyoco_server.cli.client import params as given_params
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.job_logs import exit_code, followed
from pyoco_server.cli.client.options import JobIdArgument, TableOutput, TagOption, TextOutput, the_job
from pyoco_server.cli.correction import corrected
from pyoco_server.cli.plain import line
from pyoco_server.errors import InvalidUsage

# As many as the server gives at once.
MOST_AT_ONCE = 200

JobStatus = Literal["pending", "running", "completed", "failed", "canceled"]


@reaches_server
def submit(
    where: Where,
    ctx: typer.Context,
    flow: Annotated[str | None, typer.Option(help="Which flow does it; the server's default flow if absent.")] = None,
    tag: TagOption = None,
    label: Annotated[list[str] | None, typer.Option(help="A label to find it by; may be repeated.")] = None,
    params_file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Params from a JSON or YAML file; - is standard input.")
    ] = None,
    params: Annotated[list[str] | None, typer.Option(metavar="JSON", help="Params as a JSON object.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="One param; the value is JSON or plain text.")
    ] = None,
    timeout_sec: Annotated[
        float | None,
        typer.Option("--timeout-sec", min=0.001, help="Stop the job when it takes longer: it has failed then."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show what it writes, as `job follow` does.")] = False,
    form: Annotated[
        Literal["json", "status"] | None,
        typer.Option("--output", "-o", help="What to print: json, or with --follow lines.", show_default=False),
    ] = None,
) -> int:
    """Have a job done. Params are merged in the order given; the last one wins."""
    sources = {"params_file": params_file or [], "params": params or [], "param": param or []}
    gathered = given_params.merged(ctx.meta["order"], sources)
    with connected(where) as client:
        job = client.submit_job(gathered, flow=flow, tag=tag, tags=label or (), timeout_sec=timeout_sec)
        if follow:
            output.say(output.in_words(f"submitted: {job['id']}", f"投入しました: {job['id']}"))
            return exit_code(followed(client, job["id"], "json" if form == "json" else "text"))
    if form == "status":
        screen.write(f"{line(job['id'])} {line(job['status'])}")
    else:
        screen.write_json(job)
    return output.OK


@reaches_server
def ls(
    where: Where,
    label: Annotated[
        list[str] | None, typer.Option(help="Only jobs with this label; repeated: with all of them.")
    ] = None,
    status: Annotated[JobStatus | None, typer.Option(case_sensitive=False, help="Only jobs of this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most; 50 by default.")] = 50,
    form: TableOutput = "table",
) -> None:
    """List jobs, the newest first; those that were put away are left out."""
    with connected(where) as client:
        pages = client.iter_jobs(tags=label or (), status=status, limit=min(limit, MOST_AT_ONCE))
        jobs = list(islice(pages, limit))
    if form == "json":
        screen.write_json({"jobs": jobs})
    else:
        screen.write_table(view.JOB_HEAD, [view.job_row(job) for job in jobs], view.JOB_STYLES)


@reaches_server
def get(where: Where, job_id: JobIdArgument, form: TableOutput = "table") -> None:
    """Show a job as it is now."""
    wanted = the_job(job_id)
    with connected(where) as client:
        job = client.get_job(wanted)
    if form == "json":
        screen.write_json(job)
        return
    for name, value in view.job_facts(job):
        screen.write(f"{name + ':':<12}{value}")


@reaches_server
def tag(
    where: Where,
    job_id: JobIdArgument,
    action: Annotated[
        Literal["add", "rm", "ls"], typer.Argument(metavar="ACTION", help="add, rm or ls.", show_default=False)
    ],
    labels: Annotated[
        list[str] | None, typer.Argument(metavar="LABEL...", help="For add and rm: which.", show_default=False)
    ] = None,
    form: TextOutput = "text",
) -> None:
    """Label a job, take labels off, or list them: what it has then, one per line. Also when the job is over."""
    wanted = the_job(job_id)
    _check_labels(action, labels or [])
    with connected(where) as client:
        for label in labels or []:
            if action == "add":
                client.add_job_tag(wanted, label)
            else:
                client.remove_job_tag(wanted, label)
        found = client.job_tags(wanted)
    if form == "json":
        screen.write_json(found)
        return
    for label in found:
        screen.write(line(label))


def _check_labels(action: str, labels: list[str]) -> None:
    words = sys.argv[1:]
    if action == "ls" and labels:
        raise InvalidUsage(
            "ls takes no label", example=corrected([word for word in words if word not in labels], replace={})
        )
    if action != "ls" and not labels:
        raise InvalidUsage(f"{action} needs a label", example=corrected([*words, "urgent"], replace={}))
    for label in labels:
        if not label or not label.isprintable() or {".", ".."} & set(label.split("/")):
            raise InvalidUsage(f"{label[:80]!r} is not a label", example=corrected(words, replace={label: "urgent"}))


@reaches_server
def tags(
    where: Where,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Only labels that begin so.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most; 100 by default.")] = 100,
    form: TableOutput = "table",
) -> None:
    """List the labels that jobs have, and how many have each."""
    with connected(where) as client:
        found = list(islice(client.iter_tags(prefix, limit=min(limit, MOST_AT_ONCE)), limit))
    if form == "json":
        screen.write_json({"tags": found})
    else:
        screen.write_table(view.LABEL_HEAD, [view.label_row(one) for one in found])


@reaches_server
def rm(
    where: Where,
    job_ids: Annotated[list[str], typer.Argument(metavar="JOB_ID...", help="Which jobs.", show_default=False)],
) -> None:
    """Cancel jobs that are not over, and put away (out of the lists) those that are. No such job is no error."""
    wanted = [the_job(job_id) for job_id in job_ids]
    with connected(where) as client:
        for job_id in wanted:
            client.delete_job(job_id)
            output.say(output.in_words(f"removed: {job_id}", f"削除しました: {job_id}"))
