"""The options --server, --api-key, --token and --profile of every command, and the SDK client made from them.

Errors of the SDK are printed and end the program with exit code 1; no other errors are caught.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
from typer import Option

from pyoco_server import errors
from pyoco_server.cli import output
from pyoco_server.cli.client.profiles import Profile, load_profile
from pyoco_server.cli.selection import Selection, parse_fields, parse_template
from pyoco_server.cli.suggestions import command_line
from pyoco_server.http_client.connection import DEFAULT_URL

if TYPE_CHECKING:
    from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoClientError, PyocoHttpClient

T = TypeVar("T")

# Bridges the restart of a gateway, and reports an absent one within about a second.
RETRIES = 3

ServerOption = Annotated[str | None, Option("--server", metavar="URL", help=f"PYOCO_SERVER, {DEFAULT_URL}.")]
ApiKeyOption = Annotated[str | None, Option("--api-key", metavar="KEY", help="Better by PYOCO_API_KEY.")]
TokenOption = Annotated[str | None, Option("--token", metavar="JWT", help="A bearer token; better by PYOCO_TOKEN.")]
ProfileOption = Annotated[str | None, Option("--profile", metavar="NAME", help="PYOCO_PROFILE; of `config`.")]
FieldsOption = Annotated[str | None, Option("--json", metavar="FIELDS", help="Only these fields: id,status.")]
TemplateOption = Annotated[
    str | None, Option("--template", metavar="TEXT", help="A line per item, with {field}, {field.sub}, \\n and \\t.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server and the credentials of the command line; what is missing comes from environment and profile."""

    server: str | None = None
    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    profile: str | None = None

    def client(self, **options: Any) -> PyocoHttpClient:
        """The SDK client for this server; invalid values are usage errors."""
        from pyoco_server.http_client import PyocoHttpClient  # here: --help must not wait for httpx

        return self._open(PyocoHttpClient, options)

    def async_client(self, **options: Any) -> AsyncPyocoHttpClient:
        """The same for the async client."""
        from pyoco_server.http_client import AsyncPyocoHttpClient

        return self._open(AsyncPyocoHttpClient, options)

    def _open(self, kind: Callable[..., T], options: dict[str, Any]) -> T:
        profile = load_profile(self.profile)
        server = self.server or os.environ.get("PYOCO_SERVER") or profile.server
        api_key, token = self._credentials(profile, server)
        options["language"] = "ja" if output.is_japanese() else "en"
        options["on_rate_limit"] = _show_wait
        if header := os.environ.get("PYOCO_HTTP_API_KEY_HEADER"):
            options["api_key_header"] = header
        try:
            return kind(server, api_key=api_key, token=token, **options)
        except ValueError as error:
            raise errors.InvalidUsage(str(error), example=f"pyoco-client --server {DEFAULT_URL} doctor") from error

    def _credentials(self, profile: Profile, server: str | None) -> tuple[str | None, str | None]:
        """Those of the command line; else None, so that the SDK reads the environment; else those of the profile.

        A profile's credentials are for its own server: another one must not receive them.
        """
        given = self.api_key or self.token or os.environ.get("PYOCO_API_KEY") or os.environ.get("PYOCO_TOKEN")
        if given or server != profile.server:
            return self.api_key, self.token
        return profile.api_key, profile.token


def _show_wait(seconds: float) -> None:
    whole = math.ceil(seconds)
    text = output.localized(f"waiting {whole} s (rate limit)", f"{whole} 秒待っています（レート制限）")
    output.print_stderr(text)


def remote_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the connection to a command; its first parameter `target` receives them.

    They are valid before and after the name of the command. A command with `form: Form` also gets --json and
    --template, and the form of the profile where it can print that.
    """
    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    form = next((parameter for parameter in own if parameter.name == "form"), None)
    selects = form is not None and Selection in get_args(get_args(form.annotation)[0])
    options: dict[str, Any] = {"json_fields": FieldsOption, "template": TemplateOption} if selects else {}
    options |= {"ctx": typer.Context, "server": ServerOption, "api_key": ApiKeyOption, "token": TokenOption}
    options |= {"profile": ProfileOption}
    # The command's own options come first in its help.
    added = [
        inspect.Parameter(name, kind, annotation=annotation, default=inspect.Parameter.empty if name == "ctx" else None)
        for name, annotation in options.items()
    ]

    @functools.wraps(command)
    def with_target(*, ctx: typer.Context, **rest: Any) -> Any:
        before = ctx.find_root().obj or Target()
        names = ("server", "api_key", "token", "profile")
        target = Target(**{name: rest.pop(name) or getattr(before, name) for name in names})
        if form is not None:
            given = _is_given(ctx, "form")
            chosen = _selection(rest.pop("json_fields"), rest.pop("template"), given) if selects else None
            wanted = None if given else load_profile(target.profile).output
            rest["form"] = chosen or (wanted if wanted in _words(form.annotation) else rest["form"])
        if takes_context:
            rest["ctx"] = ctx
        return command(target, **rest)

    takes_context = any(parameter.name == "ctx" for parameter in own)
    shown = [_for_typer(parameter) for parameter in own if parameter.name != "ctx"]
    with_target.__signature__ = inspect.Signature([*shown, *added])  # type: ignore[attr-defined]  # what typer reads
    with_target.__annotations__ = {parameter.name: parameter.annotation for parameter in [*shown, *added]}
    del with_target.__wrapped__  # or typer would read the original signature
    return with_target


def _for_typer(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter as typer reads it: a keyword, and without the `Selection` that --json and --template make."""
    annotation = parameter.annotation
    value, *about = get_args(annotation) if hasattr(annotation, "__metadata__") else (annotation,)
    if Selection in get_args(value):
        kept = tuple(one for one in get_args(value) if one is not Selection)
        annotation = Annotated[(Union[kept], *about)]  # noqa: UP007 - built from a tuple
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation)


def _words(annotation: Any) -> tuple[object, ...]:
    """The words among which --output chooses."""
    value = get_args(annotation)[0]
    return tuple(word for one in (value, *get_args(value)) if get_origin(one) is Literal for word in get_args(one))


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _selection(fields: str | None, template: str | None, output_given: bool) -> Selection | None:
    options = {"--output": output_given, "--json": fields is not None, "--template": template is not None}
    given = [name for name, is_given in options.items() if is_given]
    if len(given) > 1:
        words = sys.argv[1:]
        place = next((at for at, word in enumerate(words) if word.partition("=")[0] in ("-o", given[0])), len(words))
        count = 1 if "=" in words[place : place + 1] else 2
        raise errors.InvalidUsage(
            f"{' and '.join(given)} exclude each other", example=command_line(words[:place] + words[place + count :])
        )
    if template is not None:
        return parse_template(template)
    return None if fields is None else parse_fields(fields)


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


def report(error: PyocoClientError, about: str | None = None) -> None:
    """Print an error of the SDK with the message of the server, if it sent one, and what it is about."""
    request_id = getattr(error, "request_id", None)
    faulty = getattr(error, "status_code", 0) >= 500
    # Details are English; the message is in the language that was requested.
    message = getattr(error, "message", None)
    detail = output.with_japanese(message, error.detail) if output.is_japanese() and message else error.detail
    detail = f"{detail} (request {request_id})" if request_id and faulty else detail
    output.print_problem(f"{about}: {detail}" if about else detail, error.err_id, _hint(error))


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
