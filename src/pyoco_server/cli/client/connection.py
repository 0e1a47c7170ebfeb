"""The options --server, --api-key and --token of every command, and the SDK client made from them.

Errors of the SDK are printed and end the program with exit code 1; no other errors are caught.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from pyoco_server import errors
from pyoco_server.cli import output
from pyoco_server.http_client.connection import DEFAULT_URL

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoClientError, PyocoHttpClient

# Bridges the restart of a gateway, and reports an absent one within about a second.
RETRIES = 3

ServerOption = Annotated[str | None, Option("--server", metavar="URL", help=f"PYOCO_SERVER, {DEFAULT_URL}.")]
ApiKeyOption = Annotated[str | None, Option("--api-key", metavar="KEY", help="Better by PYOCO_API_KEY.")]
TokenOption = Annotated[str | None, Option("--token", metavar="JWT", help="A bearer token instead of a key.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server and the credentials of the command line; the SDK reads missing ones from the environment."""

    server: str | None = None
    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    def client(self, **options: Any) -> PyocoHttpClient:
        """The SDK client for this server; invalid values are usage errors."""
        from pyoco_server.http_client import PyocoHttpClient  # here: --help must not wait for httpx

        options["language"] = "ja" if output.is_japanese() else "en"
        if header := os.environ.get("PYOCO_HTTP_API_KEY_HEADER"):
            options["api_key_header"] = header
        try:
            return PyocoHttpClient(self.server, api_key=self.api_key, token=self.token, **options)
        except ValueError as error:
            raise errors.InvalidUsage(str(error), example=f"pyoco-client --server {DEFAULT_URL} doctor") from error


def remote_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the connection to a command; its first parameter `target` receives them.

    They are valid before and after the name of the command.
    """
    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    options = {"ctx": typer.Context, "server": ServerOption, "api_key": ApiKeyOption, "token": TokenOption}
    # The command's own options come first in its help.
    added = [
        inspect.Parameter(name, kind, annotation=annotation, default=inspect.Parameter.empty if name == "ctx" else None)
        for name, annotation in options.items()
    ]

    @functools.wraps(command)
    def with_target(
        *, ctx: typer.Context, server: str | None, api_key: str | None, token: str | None, **rest: Any
    ) -> Any:
        before = ctx.find_root().obj or Target()
        target = Target(server=server or before.server, api_key=api_key or before.api_key, token=token or before.token)
        if takes_context:
            rest["ctx"] = ctx
        return command(target, **rest)

    takes_context = any(parameter.name == "ctx" for parameter in own)
    own = [parameter.replace(kind=kind) for parameter in own if parameter.name != "ctx"]
    with_target.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]  # what typer reads
    with_target.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
    del with_target.__wrapped__  # or typer would read the original signature
    return with_target


@contextmanager
def connected(target: Target) -> Iterator[PyocoHttpClient]:
    """The SDK client; its errors end the program with a message."""
    from pyoco_server.http_client import PyocoClientError

    try:
        with target.client(retries=RETRIES) as client:
            yield client
    except PyocoClientError as error:
        report(error)
        raise typer.Exit(output.FAILED) from error


def report(error: PyocoClientError) -> None:
    """Print an error of the SDK with the message of the server, if it sent one."""
    request_id = getattr(error, "request_id", None)
    faulty = getattr(error, "status_code", 0) >= 500
    # Details are English; the message is in the language that was requested.
    message = getattr(error, "message", None)
    detail = output.with_japanese(message, error.detail) if output.is_japanese() and message else error.detail
    detail = f"{detail} (request {request_id})" if request_id and faulty else detail
    output.print_problem(detail, error.err_id, _hint(error))


def _hint(error: PyocoClientError) -> str | None:
    """What to do next, in commands of this program where the hint of the SDK names its methods."""
    from pyoco_server.http_client import GatewayUnreachable, SubmitUncertain, WaitTimeout

    match error:
        case SubmitUncertain():
            return output.localized(
                "The run may have been accepted: look for it (pyoco-client list) before you submit again.",
                "run は受理された可能性があります。再投入する前に pyoco-client list で確認してください。",
            )
        case GatewayUnreachable():
            return output.localized(errors.GatewayUnreachable.hint, errors.GatewayUnreachable.hint_ja)
        case WaitTimeout(run_id=run_id):
            return output.localized(
                f"The run continues. Wait again, or see why: pyoco-client explain {run_id}",
                f"run は継続しています。再度待つか、理由を確認してください: pyoco-client explain {run_id}",
            )
        case _:
            return error.hint
