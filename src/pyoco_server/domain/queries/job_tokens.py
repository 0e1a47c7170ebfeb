"""The `nextToken` of lists of jobs and of labels: an id, or a label, for the same filters only. It reads no list.

Nothing in it belongs to one gateway, and neither an id nor a label moves in its list: a token stays good for ever.
"""

from __future__ import annotations

from pyoco_server.domain.queries.jobs import JobQuery, LabelQuery
from pyoco_server.domain.queries.page_token import seal, unseal
from pyoco_server.errors import InvalidListQuery

_AFRESH = "start without one"


def encode(following: str, query: JobQuery | LabelQuery) -> str:
    """The token of what follows: behind this id of the jobs, or this label of the labels, that the query asks for."""
    return seal(following.encode(), about=_about(query))


def decode(token: str, query: JobQuery | LabelQuery) -> str:
    """What `encode` was given; `InvalidListQuery` unless it was for the same list. The limit may be another."""
    payload = unseal(token, about=_about(query), name="nextToken", afresh=_AFRESH)
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise InvalidListQuery(f"nextToken: it was not made by this server; {_AFRESH}") from error


def _about(query: JobQuery | LabelQuery) -> tuple[object, ...]:
    match query:
        case JobQuery():
            return ("jobs", sorted(set(query.status)), query.tenant_id, sorted(set(query.labels)))
        case LabelQuery():
            return ("labels", query.prefix, query.tenant_id)
