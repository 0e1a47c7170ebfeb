"""Where the server is and who is asking: options that every command takes, before and after its name alike.

Errors of the SDK leave from here in words for people, as exit code 1; nothing else is caught.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyoco_server import errors
from pyoco_server.cli import output

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoClientError, PyocoHttpClient

DEFAULT_SERVER = "http://127.0.0.1:8000"
# A gateway that restarts is waited for; one that is not there is told within about a second.
RETRIES = 3

ServerOption = Annotated[str | None, typer.Option("--server", metavar="URL", help=f"PYOCO_SERVER, {DEFAULT_SERVER}.")]
ApiKeyOption = Annotated[str | None, typer.Option("--api-key", metavar="KEY", help="Better by PYOCO_API_KEY.")]
TokenOption = Annotated[str | None, typer.Option("--token", metavar="JWT", help="A bearer token instead of a key.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The server as named on the command line; what is not named comes from the environment."""

    server: str | None = None
    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    def or_else(self, other: Where) -> Where:
        """This one; what it leaves open is taken from the other."""
        return Where(**{one.name: getattr(self, one.name) or getattr(other, one.name) for one in fields(Where)})

    def client(self, **how: Any) -> PyocoHttpClient:
        """The SDK's client for this server; what it cannot use is a usage error."""
        from pyoco_server.http_client import PyocoHttpClient  # here: --help must not wait for httpx

        how["language"] = "ja" if output.speaks_japanese() else "en"
        if header := os.environ.get("PYOCO_HTTP_API_KEY_HEADER"):
            how["api_key_header"] = header
        try:
            return PyocoHttpClient(self.server, api_key=self.api_key, token=self.token, **how)
        except ValueError as error:
            raise errors.InvalidUsage(str(error), example=f"pyoco-client --server {DEFAULT_SERVER} doctor") from error


def reaches_server(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where the server is; it gets them as its first argument, `where`."""
    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    options = {"ctx": typer.Context, "server": ServerOption, "api_key": ApiKeyOption, "token": TokenOption}
    # The context and the options of the command itself keep their places; ours come last in its help.
    added = [
        inspect.Parameter(name, kind, annotation=annotation, default=inspect.Parameter.empty if name == "ctx" else None)
        for name, annotation in options.items()
    ]

    @functools.wraps(command)
    def with_server(
        *, ctx: typer.Context, server: str | None, api_key: str | None, token: str | None, **rest: Any
    ) -> Any:
        here = Where(server=server, api_key=api_key, token=token)
        before = ctx.find_root().obj
        where = here.or_else(before) if isinstance(before, Where) else here
        if takes_context:
            rest["ctx"] = ctx
        return command(where, **rest)

    takes_context = any(parameter.name == "ctx" for parameter in own)
    own = [parameter.replace(kind=kind) for parameter in own if parameter.name != "ctx"]
    with_server.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]  # what typer reads
    with_server.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
    del with_server.__wrapped__  # or typer would read the signature behind it
    return with_server


@contextmanager
def connected(where: Where) -> Iterator[PyocoHttpClient]:
    """The SDK's client for the block; its errors end the program with what they say."""
    from pyoco_server.http_client import PyocoClientError

    try:
        with where.client(retries=RETRIES) as client:
            yield client
    except PyocoClientError as error:
        report(error)
        raise typer.Exit(output.USER_CAN_MEND) from error


def report(error: PyocoClientError) -> None:
    """An error of the SDK, in the words that the server sent or, where none came, in ours."""
    request_id = getattr(error, "request_id", None)
    faulty = getattr(error, "status_code", 0) >= 500
    # Details are English; the sentence before them is the server's, in the language that it was asked for.
    message = getattr(error, "message", None)
    detail = output.in_japanese(message, error.detail) if output.speaks_japanese() and message else error.detail
    output.tell(f"{detail} (request {request_id})" if request_id and faulty else detail, error.err_id, _hint(error))


def _hint(error: PyocoClientError) -> str | None:
    """What to do next, in commands of this program where the SDK speaks of its methods."""
    from pyoco_server.http_client import GatewayUnreachable, SubmitUncertain, WaitTimeout

    match error:
        case SubmitUncertain():
            return output.in_words(
                "The run may have been accepted: look for it (pyoco-client list) before you submit again.",
                "run は受理された可能性があります。再投入する前に pyoco-client list で確認してください。",
            )
        case GatewayUnreachable():
            return output.in_words(errors.GatewayUnreachable.hint, errors.GatewayUnreachable.hint_ja)
        case WaitTimeout(run_id=run_id):
            return output.in_words(
                f"The run goes on. Wait again, or see why: pyoco-client explain {run_id}",
                f"run は継続しています。再度待つか、理由を確認してください: pyoco-client explain {run_id}",
            )
        case _:
            return error.hint
