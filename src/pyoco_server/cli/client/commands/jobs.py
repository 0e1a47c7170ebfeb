"""The commands about jobs: submit, list, show, label and remove them."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.commands.logs import follow_job
from pyoco_server.cli.client.commands.submit import print_submitted, print_warnings
from pyoco_server.cli.client.completions import flow_names
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.execution_view import as_run
from pyoco_server.cli.client.following import exit_code
from pyoco_server.cli.client.ids import for_each, full_id, remember_last
from pyoco_server.cli.client.params import merge
from pyoco_server.cli.client.run_view import result_line, run_status, took_sec
from pyoco_server.cli.stdout import show, show_facts, show_lines, write, write_json
from pyoco_server.cli.suggestions import command_line, invalid
from pyoco_server.cli.tables import Json, Table, duration, first_line, inline_json, moment
from pyoco_server.cli.terminal_escape import escape_line
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client import Job

# The page limit of the server.
MAX_PAGE = 200


def _took(job: Json) -> float | None:
    return took_sec(as_run(job, ended="completedAt"))


JOBS = Table(
    ("JOB_ID", "id"),
    ("STATUS", run_status),
    ("FLOW", "flow"),
    ("TAG", "tag"),
    ("CREATED", "createdAt", moment),
    ("TOOK", _took, duration),
    ("LABELS", "tags"),
    ("ERROR", "error", first_line),
)
JOB_FACTS = Table(
    ("job", "id"),
    ("status", run_status),
    ("flow", "flow"),
    ("tag", "tag"),
    ("labels", "tags"),
    ("parameters", "parameters", inline_json),
    ("attempt", lambda job: job.get("attempt") or None),
    ("created", "createdAt", moment),
    ("started", "startedAt", moment),
    ("ended", "completedAt", moment),
    ("took", _took, duration),
    ("limit", "timeoutSec", duration),
    ("canceled", "cancelRequestedAt", moment),
    (
        "result",
        lambda job: result_line({**job, "run_id": job.get("id"), "result_truncated": job.get("resultTruncated")}),
    ),
    ("error", "error"),
)
LABELS = Table(("LABEL", "tag"), ("JOBS", "count"))


@remote_command
def submit(
    target: Target,
    ctx: typer.Context,
    words: opt.WordsArgument = None,
    flow: Annotated[
        str | None,
        Option(help="Which flow runs it; the server's default flow if absent.", autocompletion=flow_names),
    ] = None,
    tag: opt.TagOption = None,
    label: Annotated[list[str] | None, Option(help="A label to find it by; may be repeated.")] = None,
    params_file: opt.ParamsFileOption = None,
    params: opt.ParamsOption = None,
    param: opt.ParamOption = None,
    timeout_sec: Annotated[
        float | None,
        Option("--timeout-sec", min=0.001, max=opt.MAX_SEC, help="Stop a job that takes longer; it is then failed."),
    ] = None,
    strict: opt.StrictOption = True,
    follow: Annotated[bool, Option("--follow", "-f", help="Show its output, as `job follow` does.")] = False,
    form: Annotated[
        Literal["json", "status"] | None, Option("--output", "-o", help="What to print: json, or with --follow lines.")
    ] = None,
) -> int:
    """Submit a job. Params are merged in the order given, words last; the last one wins."""
    chosen, pairs = opt.flow_and_words(words, flow, "--flow")
    merged = merge(ctx.meta["order"], pairs, params_file=params_file, params=params, param=param)
    with connected(target) as client:
        job = client.submit_job(merged, flow=chosen, tag=tag, tags=label or (), timeout_sec=timeout_sec, strict=strict)
        print_warnings(job)
        remember_last(target, client, job["id"])
        if follow:
            print_submitted(job["id"])
            return exit_code(follow_job(client, job["id"], "json" if form == "json" else "text"))
    if form == "status":
        write(f"{escape_line(job['id'])} {run_status(job)}")
    else:
        write_json(job)
    return output.OK


@remote_command
def ls(
    target: Target,
    label: Annotated[list[str] | None, Option(help="Only jobs with this label; repeatable: with all.")] = None,
    status: Annotated[
        Literal["pending", "running", "completed", "failed", "cancelled", "canceled"] | None,
        Option(case_sensitive=False, help="Only jobs of this status."),
    ] = None,
    since: opt.SinceOption = None,
    until: opt.UntilOption = None,
    limit: Annotated[int, Option(min=1, max=10_000, help="How many at most; 50 by default.")] = 50,
    form: opt.TableOutput = "table",
) -> None:
    """List jobs, newest first; removed ones are left out."""
    with connected(target) as client:
        pages = client.iter_jobs(
            tags=label or (),
            status="canceled" if status == "cancelled" else status,
            limit=min(limit, MAX_PAGE),
            **opt.submitted(since, until),
        )
        jobs = list(islice(pages, limit))
    show(form, {"jobs": jobs}, JOBS, jobs, Job.__annotations__)


@remote_command
def get(target: Target, job_ids: opt.JobIdArguments, at: opt.AtOption = None, form: opt.TableOutput = "table") -> int:
    """Show jobs, as they are or as they were."""
    wanted, as_of = [opt.valid_id("a job id", job_id) for job_id in job_ids], opt.as_of(at)
    jobs: list[Json] = []
    with connected(target) as client:
        code = for_each(target, client, wanted, lambda job_id: jobs.append(client.get_job(job_id, as_of)))
    if len(wanted) > 1 and form != "table":
        show(form, jobs, JOBS)
        return code
    for job in jobs:
        show_facts(form, job, JOB_FACTS)
    return code


@remote_command
def tag(
    target: Target,
    job_id: opt.JobIdArgument,
    action: Annotated[Literal["add", "rm", "ls"], Argument(metavar="ACTION", help="add, rm or ls.")],
    labels: Annotated[list[str] | None, Argument(metavar="LABEL...", help="The labels to add or remove.")] = None,
    form: opt.TextOutput = "text",
) -> None:
    """Add labels to a job, remove or list them, also after its end; prints its labels, one per line."""
    wanted = opt.valid_id("a job id", job_id)
    _check_labels(action, labels or [])
    with connected(target) as client:
        wanted = full_id(target, client, wanted)
        for label in labels or []:
            if action == "add":
                client.add_job_tag(wanted, label)
            else:
                client.remove_job_tag(wanted, label)
        found = client.job_tags(wanted)
    show_lines(form, found, map(escape_line, found))


def _check_labels(action: str, labels: list[str]) -> None:
    words = sys.argv[1:]
    if action == "ls" and labels:
        raise InvalidUsage("ls takes no label", example=command_line([word for word in words if word not in labels]))
    if action != "ls" and not labels:
        raise InvalidUsage(f"{action} needs a label", example=command_line([*words, "urgent"]))
    for label in labels:
        if not label or not label.isprintable() or {".", ".."} & set(label.split("/")):
            raise invalid(f"{label[:80]!r} is not a label", {label: "urgent"})


@remote_command
def tags(
    target: Target,
    prefix: Annotated[str, Argument(metavar="PREFIX", help="Only labels with this prefix.")] = "",
    limit: Annotated[int, Option(min=1, max=10_000, help="How many at most; 100 by default.")] = 100,
    form: opt.TableOutput = "table",
) -> None:
    """List the labels of all jobs, and how many jobs have each."""
    with connected(target) as client:
        found = list(islice(client.iter_tags(prefix, limit=min(limit, MAX_PAGE)), limit))
    show(form, {"tags": found}, LABELS, found)


@remote_command
def rm(target: Target, job_ids: opt.JobIdArguments) -> int:
    """Cancel jobs that still run, and remove finished ones from the lists. A missing job is not an error."""
    wanted = [opt.valid_id("a job id", job_id) for job_id in job_ids]

    def remove(job_id: str) -> None:
        client.delete_job(job_id)
        output.print_stderr(output.localized(f"removed: {job_id}", f"削除しました: {job_id}"))

    with connected(target) as client:
        return for_each(target, client, wanted, remove)
