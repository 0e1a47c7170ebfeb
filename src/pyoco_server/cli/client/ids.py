"""The ids that commands take: whole ones, unique beginnings, and @last, the last run submitted from here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from pyoco_server.cli import output
from pyoco_server.cli.client.connection import Target, report
from pyoco_server.cli.client.options import LAST
from pyoco_server.cli.client.profiles import load_profile, state_folder, write_private
from pyoco_server.cli.suggestions import invalid
from pyoco_server.cli.tables import moment, text
from pyoco_server.errors import InvalidUsage

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

MAX_CANDIDATES = 5
_BEGINNING = re.compile(r"[0-9a-f-]{1,35}")


def full_id(target: Target, client: PyocoHttpClient, word: str) -> str:
    """The id that a word means. Only a beginning needs a request; archived runs need their whole id."""
    if word == LAST:
        return _last_id(target, client)
    if not _BEGINNING.fullmatch(word.lower()):
        return word
    found = client.list_runs(id_prefix=word.lower(), limit=MAX_CANDIDATES + 1)
    match found:
        case [only]:
            return only["run_id"]
        case []:
            raise InvalidUsage(f"no listed run has an id that begins with {word}", example="pyoco-client list -o table")
    for one in found[:MAX_CANDIDATES]:
        when = moment(one.get("submitted_at"))
        output.print_stderr(f"- {one['run_id']}  {text(one['status'])}  {text(one.get('flow_name'))}  {when}")
    if len(found) > MAX_CANDIDATES:
        output.print_stderr("- …")
    raise invalid(f"several runs have an id that begins with {word}: give more of it", {word: found[0]["run_id"]})


def for_each(target: Target, client: PyocoHttpClient, words: Sequence[str], work: Callable[[str], int | None]) -> int:
    """Do the work for each id; an error of one does not stop the rest. Returns the worst exit code.

    All ids are found first: an ambiguous one must not leave half of them done.
    """
    from pyoco_server.http_client import GatewayUnreachable, PyocoClientError

    worst = output.OK
    for run_id in full_ids(target, client, words):
        try:
            worst = max(worst, work(run_id) or output.OK)
        except PyocoClientError as error:
            if len(words) == 1 or isinstance(error, GatewayUnreachable):
                raise
            report(error, about=run_id)
            worst = output.FAILED
    return worst


def full_ids(target: Target, client: PyocoHttpClient, words: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(full_id(target, client, word) for word in words))


def remember_last(target: Target, client: PyocoHttpClient, run_id: str) -> None:
    """Store what @last means for this profile and server. A folder that cannot be written is no error."""
    path = state_folder() / "last" / _file_name(target, client)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, run_id)
    except OSError:
        return


def _last_id(target: Target, client: PyocoHttpClient) -> str:
    try:
        stored = (state_folder() / "last" / _file_name(target, client)).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        stored = ""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", stored):
        raise InvalidUsage(
            f"{LAST} is the last run that was submitted from here to {client.base_url}; there is none",
            example="pyoco-client submit hello",
        )
    return stored


def _file_name(target: Target, client: PyocoHttpClient) -> str:
    return quote(f"{load_profile(target.profile).name} {client.base_url}", safe="")[:200]
