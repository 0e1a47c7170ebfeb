"""Finds the user's function that knows the flows, from the words on a command line; it imports user code.

Only processes that run flows may call it. Whatever is wrong is told as InvalidUsage, with what to change.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pyoco.core.models import Flow

from pyoco_server.errors import InvalidUsage
from pyoco_server.trace import describe_error

FORM = "module:function or path/to/file.py:function"


def no_flows(flow_name: str) -> Flow:
    """The resolver of a worker that was given none: it runs flows that come as a flow.yaml, and knows no other."""
    raise KeyError(flow_name)


def load_resolver(spec: str) -> Callable[[str], Flow]:
    """The function that `spec` names, ready to be called with the name of a flow; no spec, no flows.

    The folder in which the worker was started can be imported from in any case: the tasks of a flow.yaml may be there.
    """
    here = Path.cwd()
    if not spec:
        _put_first_on_path(here)
        return no_flows
    resolver = _load_resolver(spec)
    if str(here) not in sys.path:
        sys.path.append(str(here))  # last: what is beside the resolver goes before it
    return resolver


def _load_resolver(spec: str) -> Callable[[str], Flow]:
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise InvalidUsage(f"the flow resolver {spec!r} is not of the form {FORM}", resolver=spec)
    module = _load_file(spec, Path(place)) if place.endswith(".py") else _load_module(spec, place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidUsage(
                f"the flow resolver {spec!r} names {name!r}, but {place} has no such name", resolver=spec
            )
        found = getattr(found, part)
    if not callable(found):
        kind = type(found).__name__
        raise InvalidUsage(f"the flow resolver {spec!r} is a {kind}; it must be a function of the flow's name")
    return found  # type: ignore[no-any-return]  # what it returns is checked when a flow is asked for


def _load_module(spec: str, name: str) -> ModuleType:
    _put_first_on_path(Path.cwd())
    if _is_absent(name):
        raise InvalidUsage(
            f"the flow resolver {spec!r} names module {name!r}, which is not installed and not below {Path.cwd()}",
            resolver=spec,
        )
    return _import(spec, lambda: importlib.import_module(name))


def _is_absent(name: str) -> bool:
    parent = name.partition(".")[0]
    try:
        return importlib.util.find_spec(parent) is None
    except ValueError:
        return True


def _load_file(spec: str, path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise InvalidUsage(f"the flow resolver {spec!r} names {path}, and there is no such file", resolver=spec)
    _put_first_on_path(path.parent)
    # A file may bear the name of a module that is loaded already; it must not take its place.
    name = path.stem if path.stem not in sys.modules else f"pyoco_flows_{path.stem}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise InvalidUsage(f"the flow resolver {spec!r} names {path}, which Python cannot load", resolver=spec)
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    loader = found.loader

    def load() -> ModuleType:
        loader.exec_module(module)
        return module

    return _import(spec, load)


def _import(spec: str, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        return load()
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        told = describe_error(error, hide_frames_of=__file__)
        raise InvalidUsage(
            f"the flow resolver {spec!r} cannot be imported: {told.error_type}: {told.message}\n{told.traceback}",
            resolver=spec,
        ) from error


def _put_first_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
