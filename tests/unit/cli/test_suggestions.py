"""Suggested command lines: they parse, and contain no secret."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from pyoco_server.cli import admin, output, server, worker
from pyoco_server.cli.client import program as client
from pyoco_server.cli.suggestions import MAX_CHARS, command_line, invalid
from support.deployment import parse

ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
APPS: dict[str, typer.Typer] = {
    "pyoco-server": server.app,
    "pyoco-worker": worker.app,
    "pyoco-server-admin": admin.app,
    "pyoco-client": client.app,
}
# A command line, a part of the error, and a part of the suggested command line.
INVALID = [
    ("pyoco-server", "Missing command", "up --with-worker"),
    ("pyoco-server down", "down", "up --with-worker"),
    ("pyoco-server up --nonsense", "--nonsense", "up --with-worker"),
    ("pyoco-server up --prot 80", "", "up --port 80"),
    ("pyoco-server up --port 70000", "--port", "up --with-worker"),
    ("pyoco-server up --nats-url nats://h:1 --with-nats-bootstrap", "exclude each other", "up --with-nats-bootstrap"),
    ("pyoco-server up --nats-url http://h:1", "PYOCO_NATS_URL", "up --with-worker"),
    ("pyoco-server up --worker-tags a.b", "--worker-tags", "up --worker-tags a-b"),
    ("pyoco-server up --worker-id 'a b'", "", "up --worker-id worker-1"),
    ("pyoco-worker --nats-url nowhere", "PYOCO_NATS_URL", "--tags default,gpu"),
    ("pyoco-worker --tags a.b", "--tags", "--tags a-b"),
    ("pyoco-worker --tags=a.b,c", "", "--tags=a-b,c"),
    ("pyoco-worker --worker-id a..b", "", "--worker-id worker-1"),
    ("pyoco-worker --concurrency 0", "--concurrency", "--tags default,gpu"),
    ("pyoco-worker --tag x", "", "--tags x"),
    ("pyoco-server-admin", "Missing command", "api-key create"),
    ("pyoco-server-admin api-key", "Missing command", "api-key create"),
    ("pyoco-server-admin api-kye list", "", "api-key list"),
    ("pyoco-server-admin api-key create", "--tenant", "api-key create --tenant team-a"),
    (
        "pyoco-server-admin api-key create --tenant t --scopes runs:raed",
        "accepted: runs:read",
        "api-key create --tenant team-a",
    ),
    ("pyoco-server-admin api-key create --tenant t --expires-in soon", "", "--tenant t --expires-in 90d"),
    ("pyoco-server-admin api-key create --tenant t --expires-at soon", "", "--tenant t --expires-at 2030-01-31"),
    ("pyoco-server-admin api-key create --tenant t --expires-in 1d --expires-at 2030-01-31", "", "--expires-in 90d"),
    (
        "pyoco-server-admin api-key create --tenant t --data-dir nowhere",
        "no pyoco-server is up",
        "api-key create --tenant team-a",
    ),
    ("pyoco-server-admin api-key revoke nonsense", "16 of the characters", "api-key revoke 0123456789abcdef"),
    ("pyoco-client sumbit", "sumbit", "submit"),
    ("pyoco-client job", "Missing command", "job submit input=data.csv"),
    ("pyoco-client config", "Missing command", "config set server"),
    ("pyoco-client jbo", "", "job submit"),
    ("pyoco-client jbo ls", "", "job ls"),
    ("pyoco-client submit", "no flow is given", "submit hello name=Ann --watch"),
    ("pyoco-client submit a=1", "no flow is given", "submit hello name=Ann --watch"),
    ("pyoco-client submit two words", "'words' is not key=value", "submit two words=value"),
    ("pyoco-client submit hello --flow-name main", "the flow is given twice", "submit --flow-name main"),
    ("pyoco-client job submit a --flow b", "the flow is given twice", "job submit --flow b"),
    ("pyoco-client execute release version", "'version' is not key=value", "execute release version=value"),
    ("pyoco-client submit --flow x", "", "submit --flow-name x"),
    ("pyoco-client submit --flow-nam=x", "", "submit --flow-name=x"),
    ("pyoco-client submit --flow-name main --follow", "", "submit hello name=Ann --watch"),
    ("pyoco-client submit --flow-name main --timeout-sec 9", "", "submit --flow-name main --timeout-sec 9 --wait"),
    ("pyoco-client submit --flow-name main --timeout-sec inf", "", "submit hello name=Ann --watch"),
    ("pyoco-client submit --flow-name f --param x", "key=value", "submit --flow-name f --param x=value"),
    ("pyoco-client submit --flow-name f --params \"{'a': 1}\"", "", "submit --flow-name f --params '{\"a\": 1}'"),
    (f"pyoco-client submit --flow-name f --param {'x' * 500}", "key=value", "submit hello name=Ann --watch"),
    ("pyoco-client submit-yaml", "--workflow-file", "submit-yaml --workflow-file flow.yaml"),
    ("pyoco-client submit-yaml my/flow.yaml", "", "submit-yaml --workflow-file my/flow.yaml"),
    ("pyoco-client submit-yaml --workflow-file gone.yaml", "No such file", "submit-yaml --workflow-file flow.yaml"),
    ("pyoco-client --server http://h:1 submit r b", "", "--server http://h:1 submit r b=value"),
    ("pyoco-client --sever http://h:1 list", "", "--server http://h:1 list"),
    ("pyoco-client get", "no run", f"get {ID}"),
    ("pyoco-client get ''", "no run", f"get {ID}"),
    ("pyoco-client get ../workers", "not a run id", f"get {ID}"),
    ("pyoco-client get a --run-id b", "two different", "get a"),
    ("pyoco-client get --run-id=b a", "", "get a"),
    (f"pyoco-client get {ID} --include everything", "records", "get"),
    ("pyoco-client cancel --run-id", "--run-id", "cancel --run-id VALUE"),
    ("pyoco-client cancel a --timeout-sec 0", "--timeout-sec", f"cancel {ID}"),
    ("pyoco-client cancel a --status RUNNING", "ids and filters exclude each other", "cancel a"),
    ("pyoco-client cancel --status FAILED", "runs that are FAILED cannot be cancelled", "cancel --status RUNNING"),
    ("pyoco-client cancel --since soon", "'soon' is no time", "cancel --since 1h"),
    ("pyoco-client get a --at soon", "'soon' is no time", "get a --at 1h"),
    ("pyoco-client get @first", "is not a run id", f"get {ID}"),
    ("pyoco-client get @last --json ,", "--json needs the names of fields", "get @last --json id"),
    ("pyoco-client get @last --template done", "names no field", "get @last --template '{id} {status}'"),
    ("pyoco-client get @last --json id -o table", "--output and --json exclude each other", "get @last --json id"),
    ("pyoco-client submit f --watch --json id", "--watch and a selection of fields exclude", "--wait --json id,status"),
    ("pyoco-client submit-yaml --workflow-file pyproject.toml --logs --template {id}", "--logs and a", "--wait --json"),
    ("pyoco-client get a --json id --template '{id}'", "exclude each other", "get a --template '{id}'"),
    ("pyoco-client list --until 2026-13-01", "'2026-13-01' is no time", "list --until 1h"),
    ("pyoco-client job ls --since soon", "'soon' is no time", "job ls --since 1h"),
    ("pyoco-client --profile gone list", "there is no profile gone", "--profile gone config set server"),
    ("pyoco-client --profile a/b list", "is not the name of a profile", "--profile work config list"),
    ("pyoco-client config set colour red", "", "config set server https://pyoco.example.org --profile work"),
    ("pyoco-client config set language fr", "language is one of: en, ja", "config set language en"),
    ("pyoco-client config set server localhost", "address", "--server http://127.0.0.1:8000 doctor"),
    ("pyoco-client config get token", "has no token", "config list"),
    ("pyoco-client config use gone", "there is no profile gone", "--profile work config set server"),
    ("pyoco-client cancel a --timeout-sec 9", "needs --wait", "cancel a --timeout-sec 9 --wait"),
    ("pyoco-client dlq-replay", "", "dlq-replay --seq 42"),
    ("pyoco-client dlq-replay --seq 1 --timeout-sec 9", "", "dlq-replay --seq 1 --timeout-sec 9 --watch"),
    ("pyoco-client list --status DONE", "DONE", "list --status FAILED"),
    ("pyoco-client list --limit 0", "--limit", "list"),
    ("pyoco-client list --limit many", "integer", "list"),
    ("pyoco-client list --output xml", "xml", "list"),
    ("pyoco-client list-vnext --updated-after nan", "", "list-vnext"),
    ("pyoco-client list --server localhost:8000", "address", "--server http://127.0.0.1:8000"),
    ("pyoco-client list --api-key 日本", "api_key", "--server http://127.0.0.1:8000"),
    ("pyoco-client workers --hide a --unhide b", "exclude", "workers --hide a"),
    ("pyoco-client workers --hide a/b", "not a worker id", "workers --hide worker-1"),
    ("pyoco-client wheel-upload", "--wheel-file", "wheel-upload --wheel-file dist/demo-1.0-py3-none-any.whl"),
    (
        "pyoco-client wheel-upload --wheel-file x.whl",
        "no file",
        "wheel-upload --wheel-file dist/demo-1.0-py3-none-any.whl",
    ),
    (
        "pyoco-client wheel-upload --wheel-file pyproject.toml",
        "",
        "wheel-upload --wheel-file demo-1.0-py3-none-any.whl",
    ),
    ("pyoco-client wheel-delete --wheel-name demo", "name of a wheel", "wheel-delete --wheel-name demo-1.0"),
    ("pyoco-client wheel-history --limit 501", "", "wheel-history"),
    ("pyoco-client wheel-history --action replace", "", "wheel-history"),
    (
        "pyoco-client wheel-download --wheel-name a.whl --to no/where",
        "no folder",
        "wheel-download --wheel-name a.whl --to .",
    ),
    ("pyoco-client completion tcsh", "tcsh", "completion bash"),
    ("pyoco-client approve a/b", "not an execution id", f"approve {ID}"),
    (f"pyoco-client approve {ID} --reason x", "needs --reject", f"approve {ID} --reason x --reject"),
    (f"pyoco-client approve {ID} --reject --answer 1", "exclude", f"approve {ID} --answer 1"),
    (f"pyoco-client approve {ID} --answer {{yes", "not JSON", f'approve {ID} --answer \'{{"choice": "ship"}}\''),
    (f"pyoco-client approve {ID} --answer ''", "not JSON", f'approve {ID} --answer \'{{"choice": "ship"}}\''),
    ("pyoco-client graph-put gone.yaml", "No such file", "graph-put release.yaml"),
    ("pyoco-client graph-put . --graph-id a/b", "name of a graph", "graph-put . --graph-id release"),
    ("pyoco-client execute", "GRAPH_ID", "execute release"),
    (f"pyoco-client job logs {ID} --text job.log --tail 5", "--tail selects from it", f"job logs {ID} --text job.log"),
    (f"pyoco-client job logs {ID} --text job.log --since t", "", f"job logs {ID} --text job.log"),
    (f"pyoco-client job follow {ID} --after ３", "not a place", f"job follow {ID} --after 3.87"),
    (f"pyoco-client job tag {ID}", "ACTION", f"job tag {ID} add urgent"),
    (f"pyoco-client job tag {ID} add", "add needs a label", f"job tag {ID} add urgent"),
    (f"pyoco-client job tag {ID} ls urgent", "ls takes no label", f"job tag {ID} ls"),
    (f"pyoco-client job tag {ID} rm ..", "'..' is not a label", f"job tag {ID} rm urgent"),
    (f"pyoco-client job tag {ID} put urgent", "", f"job tag {ID} add urgent"),
    ("pyoco-client job tags --prefix urg", "", "job tags urg --limit 20"),
    *(
        (f"pyoco-client job {name} ../runs", "is not a job id", f"job {name} {ID}")
        for name in ("get", "logs", "follow", "rm")
    ),
    ("pyoco-client job tag ../runs ls", "'../runs' is not a job id", f"job tag {ID} ls"),
]


@pytest.mark.parametrize(("line", "detail", "suggested"), INVALID, ids=lambda value: value[:60])
def test_invalid_arguments_of_every_program_end_with_0018_and_a_command_that_parses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, detail: str, suggested: str
) -> None:
    program, *arguments = shlex.split(line)
    monkeypatch.setattr("sys.argv", [program, *arguments])
    for name, value in {"LC_ALL": "C", "PYOCO_LOAD_DOTENV": "0", "PYOCO_NATS_URL": ""}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SystemExit) as ended:
        output.run(APPS[program], program)

    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (1, "")
    assert re.search(r"^error: .* \[ERR-PYOCO-0018\]$\n^hint: ", printed.err, re.MULTILINE)
    assert detail in printed.err
    example = printed.err.partition("\nexample: ")[2].strip()
    assert example.startswith(f"{program} ")
    assert suggested in example
    parse(shlex.split(re.split(r" \| | >> ", example)[0]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["submit", "--param", "wrong"], "submit --param right=1"),
        (["submit", "--param=wrong"], "submit --param=right=1"),
        (["get", "--wrong=x"], "get --wrong=x"),
        (["submit", "--params", '{"a b": 1}'], """submit --params '{"a b": 1}'"""),
        (["--api-key", "s3cret", "list"], '--api-key "$PYOCO_API_KEY" list'),
        (["--api-key=s3cret", "list"], '--api-key="$PYOCO_API_KEY" list'),
        (["list", "--token", "s3cret"], 'list --token "$TOKEN"'),
        (["list", "--server", "http://ann:s3cret@host:8000"], "list --server 'http://…@host:8000'"),
    ],
)
def test_a_suggestion_has_the_correction_and_no_secret(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    monkeypatch.setattr("sys.argv", ["pyoco-client", *arguments])

    assert invalid("no", {"wrong": "right=1"}).facts["example"] == f"pyoco-client {expected}"


def test_a_very_long_command_line_is_not_suggested() -> None:
    assert command_line(["x" * MAX_CHARS]) is None
