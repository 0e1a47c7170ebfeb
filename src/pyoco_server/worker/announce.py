"""Which flows a resolver has, as far as it says so: its `flows`, or `FLOWS` of its module. Serves and runs none.

It runs user code: only processes that run flows may call it. Whatever that code does wrong is told in words.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from pyoco.core.models import Flow

from pyoco_server.domain.fleet.flows import MAX_EDGES, MAX_FLOWS, AnnouncedFlow, FlowAnnouncement, bounded
from pyoco_server.trace import describe_error, encodable
from pyoco_server.worker.flow_run import Resolver
from pyoco_server.worker.flow_shape import edges_of, names_in_order

logger = logging.getLogger(__name__)

USER_CODE_RAISES = (Exception, SystemExit, KeyboardInterrupt)
# For the whole announcement, once user code is loaded. Whoever takes longer is not waited for.
ANNOUNCE_LIMIT_SEC = 10.0


def names_in(text: str) -> tuple[str, ...]:
    """The names in a setting, where they are joined by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def announce(resolver: Resolver, names: Sequence[str] = (), *, build: bool = True) -> FlowAnnouncement:
    """The flows of these names, else those that the resolver says it has; with `build` it is asked for each of them.

    Without, only a flow that lies there ready has a graph: building one changes the tasks it shares with others, which
    must not happen in a process that runs flows later.
    """
    known: Mapping[str, Any] = {}
    left_out: list[str] = []
    try:
        known = _known(resolver)
    except USER_CODE_RAISES as error:
        left_out.append(_told("the flows that the resolver says it has", error))
    flows: list[AnnouncedFlow] = []
    for name in islice(names or known, MAX_FLOWS + 1):
        try:
            flow = _found(resolver if build else None, name, known.get(name))
        except USER_CODE_RAISES as error:
            left_out.append(_told(f"flow {name!r}", error))
            continue
        try:
            flows.append(_announced(name, flow))
        except USER_CODE_RAISES as error:
            flows.append(AnnouncedFlow(name=name))
            left_out.append(_told(f"graph of flow {name!r}", error))
    return bounded(flows, left_out)


def warn_of_left_out(announcement: FlowAnnouncement) -> None:
    if announcement.left_out:
        logger.warning("flows are not announced, or not in full", extra={"reasons": list(announcement.left_out)})


def _known(resolver: Resolver) -> Mapping[str, Any]:
    """The names that the resolver says it has, with what lies ready under them."""
    declared: Any = getattr(resolver, "flows", None)
    if callable(declared):
        declared = declared()
    if declared is None:
        declared = getattr(sys.modules.get(getattr(resolver, "__module__", "")), "FLOWS", None)
        if not isinstance(declared, Mapping | list | tuple | set | frozenset):
            return {}  # a word that many use, and for other things
    if isinstance(declared, Mapping):
        return dict(islice(declared.items(), MAX_FLOWS + 1))
    if isinstance(declared, str | bytes) or not isinstance(declared, Iterable):
        raise TypeError(f"must be names of flows, or a mapping of them, not {type(declared).__name__}")
    return dict.fromkeys(islice(declared, MAX_FLOWS + 1))


def _found(resolver: Resolver | None, name: str, ready: object) -> Flow | None:
    """The flow of that name; None when nobody may be asked for it."""
    if isinstance(ready, Flow) or resolver is None:
        return ready if isinstance(ready, Flow) else None
    flow: object = resolver(name)
    if not isinstance(flow, Flow):
        raise TypeError(f"the resolver returned a {type(flow).__name__}, not a pyoco Flow")
    return flow


def _announced(name: str, flow: Flow | None) -> AnnouncedFlow:
    if flow is None:
        return AnnouncedFlow(name=name)
    return AnnouncedFlow(name=name, nodes=names_in_order(flow), edges=edges_of(flow, most=MAX_EDGES))


def _told(what: str, error: BaseException) -> str:
    told = describe_error(error, hide_frames_of=__file__)
    return encodable(f"{what}: {told.error_type}: {told.message}")
