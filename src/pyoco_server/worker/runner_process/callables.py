"""Whose code a callable runs, whatever module it was found in.

A module of a worker imports functions of the standard library, wraps them and inherits from them: `tasks:run` may be
`subprocess.run`. This module finds where a callable was defined; it does not call it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sysconfig
from collections.abc import Collection, Iterator
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.domain.flow_yaml import is_named, is_standard

_DESCRIPTORS = (MethodWrapperType, WrapperDescriptorType, MethodDescriptorType, ClassMethodDescriptorType)
_STANDARD_FOLDERS = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


def standard_code_of(found: Any, allowed: Collection[str]) -> str | None:
    """What of Python itself the callable runs directly, as module:name; None when nothing, or patterns name it."""
    for module, name in _origins(found):
        place = f"{module}:{name}"
        if is_standard(module) and not is_named(place, allowed):
            return place
    return None


def is_in_standard_library(module: str) -> bool:
    """Whether the file of a top-level module is Python's own, as that of `test`, which is not in its list of names."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return False
    origin = (spec.origin if spec is not None else None) or ""
    if origin in ("built-in", "frozen"):  # part of the interpreter, as `__hello__`
        return True
    is_below = next((origin[len(one) :] for one in _STANDARD_FOLDERS if origin.startswith(one)), None)
    return is_below is not None and not is_below.startswith(_INSTALLED)


def _origins(found: Any) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a call of `found` enters first."""
    waiting, seen = [found], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, TaskWrapper):
            waiting.append(one.task)
        elif isinstance(one, Task | functools.partial):
            waiting.append(one.func)
        elif isinstance(one, MethodType | staticmethod):
            waiting.append(one.__func__)
        elif isinstance(one, type):
            yield from _origins_of_class(one)
        elif isinstance(one, FunctionType):
            yield _named(one.__module__), one.__qualname__
        elif isinstance(one, _DESCRIPTORS):
            yield _named(one.__objclass__.__module__), one.__qualname__
        elif isinstance(one, BuiltinFunctionType):
            # A bound method has no module, but an owner, whose class may have inherited it.
            owner = one.__self__ if isinstance(one.__self__, type) else type(one.__self__)
            yield one.__module__ or _definer(owner, one.__name__), one.__qualname__
        elif (wrapped := _wrapped_by(one)) is not None:
            waiting.append(wrapped)
        else:
            yield _definer(type(one), "__call__"), type(one).__qualname__


def _origins_of_class(one: type) -> Iterator[tuple[str, str]]:
    """The class itself and what makes its instances, if inherited from another than `object`."""
    yield one.__module__, one.__qualname__
    for owner, name in ((one, "__new__"), (one, "__init__"), (type(one), "__call__")):
        definer = _definer_of(owner, name)
        if definer not in (None, object, type):
            yield definer.__module__, f"{definer.__qualname__}.{name}"


def _wrapped_by(one: Any) -> Any:
    """What functools.cache and functools.update_wrapper leave; not what an object makes up for any name."""
    own = getattr(one, "__dict__", None)
    return own.get("__wrapped__") if isinstance(own, dict) else None


def _definer_of(owner: type, name: str) -> Any:
    return next((one for one in owner.__mro__ if name in vars(one)), None)


def _definer(owner: type, name: str) -> str:
    definer = _definer_of(owner, name)
    return "builtins" if definer is None else _named(definer.__module__)


def _named(module: Any) -> str:
    # What has no module is C code without a name: not that of a user.
    return module if isinstance(module, str) else "builtins"
