"""
Tables of named things to which other installed packages can add their own.

A name is one of the package's own, the name of an entry point, or ``module:name``. Entry points
are read only for a name that is not the package's own, and for a list of all names. What another
package brings is compared with a Protocol: :func:`broken_members`.
"""

import importlib
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from typing_extensions import get_protocol_members

from arena_robot.core.config import nearest
from arena_robot.core.errors import ArenaError, ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Row = TypeVar('Row')

_log = logging.getLogger(__name__)


def load_object(address: str) -> object:
    """
    Return what ``module:name`` stands for; modules in the working directory are found too.

    Raises ConfigError that says what cannot be imported, or names the nearest name of the module.
    """
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module_name, _, names = address.partition(':')
    if not module_name or not names:
        raise ConfigError(f"'{address}' is not module:name")
    try:
        loaded: object = importlib.import_module(module_name)
    except Exception as error:  # whatever a module does while it is imported
        raise ConfigError(f"cannot import '{module_name}' from {folder}: {error}") from error
    for name in names.split('.'):
        names_in = [word for word in dir(loaded) if word[0] != '_']
        if name not in names_in and not hasattr(loaded, name):
            raise ConfigError(f"'{module_name}' has no '{name}'.{nearest(name, names_in)}")
        loaded = getattr(loaded, name)
    return loaded


def callable_as(kind: str) -> Callable[[object, str], Callable[..., Any]]:
    """Return a check for a :class:`Table` whose rows are called to make a ``kind``."""
    def check(loaded: object, name: str) -> Callable[..., Any]:
        if not callable(loaded):
            raise ConfigError(f"the {kind} '{name}' is not a class or function, found {loaded!r}")
        return loaded
    return check


@dataclass(frozen=True)
class Table(Generic[Row]):
    """
    What exists of one ``kind`` (a word for messages), by name.

    ``built_in`` holds rows, or the ``module:name`` that a row is loaded from when it is asked for.
    Other packages add rows in the entry point ``group``; a built-in name cannot be replaced.
    ``check`` gets a loaded thing and the name that was asked for; it returns the row or raises.
    ``error`` is raised for a name that nobody knows.
    """

    kind: str
    group: str
    built_in: Mapping[str, Row | str]
    check: Callable[[object, str], Row]
    error: type[ArenaError] = ConfigError
    _added: dict[str, Row] = field(default_factory=dict, init=False, repr=False, compare=False)

    def find(self, name: str) -> Row:
        """Return the row called ``name``; an unknown one raises, naming the nearest known."""
        if name in self.built_in:
            row = self.built_in[name]
            return self.check(load_object(row), name) if isinstance(row, str) else row
        if name not in self._added:
            self._added[name] = self.check(load_object(self._address(name)), name)
        return self._added[name]

    def find_named(self, name: str) -> Row:
        """Return the row called ``name``, which comes from a request: no ``module:name``."""
        if ':' in name:
            raise self.error(f"'{name}' is not the name of a {self.kind}."
                             f'{nearest(name, self.names())}')
        return self.find(name)

    def names(self) -> list[str]:
        """Return all names, the package's own first, in the order of the table."""
        return [*self.built_in, *sorted(set(self._points()) - set(self.built_in))]

    def rows(self) -> dict[str, Row]:
        """Return all rows by name; one that cannot be loaded is left out with a warning."""
        rows = {}
        for name in self.names():
            try:
                rows[name] = self.find(name)
            except ArenaError as error:
                _log.warning("the %s '%s' is left out: %s", self.kind, name, error)
        return rows

    def _address(self, name: str) -> str:
        if ':' in name:
            return name
        points = self._points().get(name, [])
        if not points:
            raise self.error(f"no {self.kind} '{name}'.{nearest(name, self.names())} Or write "
                             'module:name for one of your own.')
        if len(points) > 1:
            packages = ' and '.join(sorted(p.dist.name if p.dist else p.value for p in points))
            raise self.error(f"the {self.kind} '{name}' is added by {packages}; remove all but "
                             'one, or write module:name')
        return points[0].value

    def _points(self) -> 'dict[str, list[EntryPoint]]':
        from importlib.metadata import entry_points  # takes 25 ms to import
        by_name: dict[str, dict[str, EntryPoint]] = {}
        for point in entry_points(group=self.group):
            by_name.setdefault(point.name, {})[point.value] = point
        return {name: list(points.values()) for name, points in by_name.items()}


def broken_members(loaded: object, protocol: type) -> list[str]:
    """
    Return what ``loaded`` lacks of ``protocol``, such as ``'stop()'``; empty when nothing.

    Methods must be callable with the protocol's arguments, by position and by name. Attributes
    that the protocol only annotates are looked for in objects, not in classes.
    """
    broken = []
    for name in sorted(get_protocol_members(protocol)):
        wanted = inspect.getattr_static(protocol, name, None)
        if not inspect.isfunction(wanted):
            if (wanted is not None or not isinstance(loaded, type)) and not hasattr(loaded, name):
                broken.append(name)
            continue
        made = getattr(loaded, name, None)
        shape = _shape(wanted)
        if made is None:
            broken.append(f'{name}{shape}')
        elif not callable(made):
            broken.append(f'{name}{shape} (it is not a method)')
        elif not _fits(made, loaded, name, shape):
            broken.append(f'{name}{shape} (it takes {inspect.signature(made)})')
    return broken


def _shape(method: Callable[..., Any]) -> inspect.Signature:
    """Return the arguments of a method without ``self``, names and defaults only."""
    arguments = list(inspect.signature(method).parameters.values())[1:]
    return inspect.Signature([a.replace(annotation=inspect.Parameter.empty) for a in arguments])


def _fits(made: Callable[..., Any], loaded: object, name: str, shape: inspect.Signature) -> bool:
    try:
        signature = inspect.signature(made)
    except ValueError:      # a method written in C may have no signature
        return True
    static = inspect.getattr_static(loaded, name, None)
    unbound = isinstance(loaded, type) and not isinstance(static, staticmethod | classmethod)
    unbound_self = (None,) if unbound else ()
    names = list(shape.parameters)
    needed = [name for name, a in shape.parameters.items() if a.default is a.empty]
    try:
        signature.bind(*unbound_self, *names)
        signature.bind(*unbound_self, *needed)
        signature.bind(*unbound_self, **dict.fromkeys(names))
    except TypeError:
        return False
    return True
