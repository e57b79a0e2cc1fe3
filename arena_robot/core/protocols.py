"""Which members of a Protocol a class or an object lacks."""

import inspect
from collections.abc import Callable
from typing import Any

from typing_extensions import get_protocol_members


def broken_members(found: object, protocol: type) -> list[str]:
    """
    Return what ``found`` lacks of ``protocol``, such as ``'stop()'``; empty when nothing.

    Methods must be callable with the protocol's arguments, by position and by name. Attributes
    that the protocol only annotates are looked for in objects, not in classes.
    """
    broken = []
    for name in sorted(get_protocol_members(protocol)):
        wanted = inspect.getattr_static(protocol, name, None)
        if not inspect.isfunction(wanted):
            if (wanted is not None or not isinstance(found, type)) and not hasattr(found, name):
                broken.append(name)
            continue
        made = getattr(found, name, None)
        shape = _shape(wanted)
        if made is None:
            broken.append(f'{name}{shape}')
        elif not callable(made):
            broken.append(f'{name}{shape} (it is not a method)')
        elif not _fits(made, found, name, shape):
            broken.append(f'{name}{shape} (it takes {inspect.signature(made)})')
    return broken


def _shape(method: Callable[..., Any]) -> inspect.Signature:
    """Return the arguments of a method without ``self``, names and defaults only."""
    given = list(inspect.signature(method).parameters.values())[1:]
    return inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in given])


def _fits(made: Callable[..., Any], found: object, name: str, shape: inspect.Signature) -> bool:
    try:
        signature = inspect.signature(made)
    except ValueError:      # a method written in C may have no signature
        return True
    static = inspect.getattr_static(found, name, None)
    unbound = isinstance(found, type) and not isinstance(static, staticmethod | classmethod)
    own = (None,) if unbound else ()
    names = [one.name for one in shape.parameters.values()]
    needed = [one.name for one in shape.parameters.values() if one.default is one.empty]
    try:
        signature.bind(*own, *names)
        signature.bind(*own, *needed)
        signature.bind(*own, **dict.fromkeys(names))
    except TypeError:
        return False
    return True
