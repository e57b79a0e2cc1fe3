"""
The parameters of a node as a frozen dataclass: its fields are the declared parameters.

    @dataclass(frozen=True, kw_only=True)
    class CameraParams(Parameters):
        rate: float = param(15.0, 'frames published', 0.1, 120.0, unit='Hz')

    params = declare(node, CameraParams())
    params.rate

A wrong type, a value out of range, and an unknown name raise ConfigError.
"""

import dataclasses
import re
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterException,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError

Value = bool | int | float | str | tuple[bool, ...] | tuple[int, ...] | tuple[float, ...] | tuple[
    str, ...]
T = TypeVar('T', bound=Value)
P = TypeVar('P', bound='Parameters')

_ALWAYS = ('use_sim_time', 'start_type_description_service')
_KEY = 'param'
# How a parameter may change while its node runs; of a list each number.
ANY, DOWN, UP = (f'may {how} while running' for how in ('change', 'only be lowered',
                                                        'only be raised'))
# What names of joints, links and frames may begin with.
_PREFIX = re.compile('([A-Za-z][A-Za-z0-9_]*)?')
# What the names of a driver's own parameters begin with.
DRIVER = 'driver.'


@dataclass(frozen=True)
class Meaning:
    """
    Description, unit and allowed values of a parameter.

    ``low`` and ``high`` bound numbers; ``choices`` are the allowed strings, of a list each.
    ``live`` is ANY, DOWN or UP; a parameter without it can only be set before the node starts.
    """

    description: str
    low: float | None = None
    high: float | None = None
    unit: str = ''
    choices: tuple[str, ...] = ()
    live: str = ''


@dataclass(frozen=True)
class Parameters:
    """Base of the dataclasses whose fields are a node's parameters, each made by `param`."""


@dataclass(frozen=True)
class Param:
    """One parameter; its default also sets its type."""

    name: str
    default: Value
    meaning: Meaning

    def descriptor(self) -> ParameterDescriptor:
        """Return the parameter's descriptor for tools and rclpy."""
        meaning = self.meaning
        words = f'{meaning.description} ({meaning.unit})' if meaning.unit else meaning.description
        out = ParameterDescriptor(description=words, read_only=not meaning.live)
        choices = f"one of {', '.join(meaning.choices)}" if meaning.choices else ''
        out.additional_constraints = '; '.join(filter(None, (choices, meaning.live)))
        if meaning.low is not None and meaning.high is not None:
            if isinstance(self.default, float):
                out.floating_point_range = [
                    FloatingPointRange(from_value=float(meaning.low),
                                       to_value=float(meaning.high))]
            else:
                out.integer_range = [
                    IntegerRange(from_value=int(meaning.low), to_value=int(meaning.high), step=1)]
        return out


def param(default: T, description: str, low: float | None = None, high: float | None = None, *,
          unit: str = '', choices: tuple[str, ...] = (), live: str = '') -> T:
    """Return a field of a Parameters dataclass; see Meaning for the arguments."""
    meaning = Meaning(description, low, high, unit, choices, live)
    return dataclasses.field(default=default, metadata={_KEY: meaning})


def params_of(defaults: Parameters, prefix: str = '') -> tuple[Param, ...]:
    """Return the parameters that a dataclass declares, with its values as their defaults."""
    return tuple(Param(f'{prefix}{field.name}', getattr(defaults, field.name),
                       field.metadata[_KEY]) for field in dataclasses.fields(defaults))


def by_name(params: Parameters) -> dict[str, Value]:
    """Return the values by the names of their parameters."""
    return {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}


def declare(node: Node, defaults: P, prefix: str = '') -> P:
    """
    Declare the fields of ``defaults`` as ``<prefix><field>`` and return them as they are set.

    Raises ConfigError for a value of the wrong type, out of range or not among the choices.
    """
    values = {param.name.removeprefix(prefix): declare_one(node, param)
              for param in params_of(defaults, prefix)}
    return _with(defaults, values)


class Current(Generic[P]):
    """
    The declared parameters of a node with the live ones as they are now, in ``values``.

    ``check`` raises ConfigError for values that are not allowed together, and so refuses a change;
    ``then`` is called after one.
    """

    def __init__(self, node: Node, params: P, prefix: str = '', *,
                 check: Callable[[P], object] = lambda values: None,
                 then: Callable[[], None] = lambda: None) -> None:
        self.values = params
        self._rows = {row.name: row for row in params_of(params, prefix)}
        self._prefix, self._check, self._then = prefix, check, then
        node.add_on_set_parameters_callback(self._allow)
        node.add_post_set_parameters_callback(self._take)

    def _changed(self, asked: list[Parameter]) -> P:
        return _with(self.values, {
            p.name.removeprefix(self._prefix): _as_default(p.value, self._rows[p.name].default)
            for p in asked if p.name in self._rows})

    def _allow(self, asked: list[Parameter]) -> SetParametersResult:
        values = self._changed(asked)
        try:
            for p in asked:
                if row := self._rows.get(p.name):
                    name = p.name.removeprefix(self._prefix)
                    _check(p.name, getattr(values, name), row)
                    _one_way(row, getattr(self.values, name), getattr(values, name))
            self._check(values)
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _take(self, asked: list[Parameter]) -> None:
        if any(p.name in self._rows for p in asked):
            self.values = self._changed(asked)
            self._then()


def _one_way(row: Param, now: Any, asked: Any) -> None:
    """Raise ConfigError where a limit would become wider, or is not a number."""
    live = row.meaning.live
    if live in (DOWN, UP):
        was, new = np.atleast_1d(now), np.atleast_1d(asked)
        if was.shape != new.shape or not np.all(new <= was if live == DOWN else new >= was):
            raise ConfigError(f'{row.name} {live}: it is {now}, asked is {asked}; change the '
                              'station file and start the node again')


def refuse_unknown(node: Node, but: tuple[str, ...] = ()) -> None:
    """Raise ConfigError for a parameter that is set but not declared; ``but`` are prefixes."""
    for name in node._parameter_overrides:
        if not node.has_parameter(name) and not name.startswith(('qos_overrides.', *but)):
            known = [p for p in node._parameters if not p.startswith('qos_overrides')]
            raise ConfigError(f"{node.get_fully_qualified_name()}: unknown parameter '{name}'."
                              f'{nearest(name, set(known) - set(_ALWAYS))}')


def require_prefix(prefix: str) -> None:
    """Raise ConfigError for an arm_prefix with which no name of a joint or frame can begin."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(f"arm_prefix '{prefix}' cannot begin the names of joints and frames: "
                          'take letters, digits and _, a letter first')


def is_set(node: Node, name: str) -> bool:
    """Tell whether a parameter file or an argument of the process sets ``name``."""
    return name in node._parameter_overrides


def set_value(node: Node, name: str) -> Value:
    """Return what a parameter file or an argument of the process sets ``name`` to."""
    value = node._parameter_overrides[name].value
    return cast(Value, tuple(value) if isinstance(value, list | array) else value)


def declare_one(node: Node, param: Param) -> Value:
    """Declare one parameter and return its value; raises ConfigError as `declare` does."""
    where = f'{node.get_fully_qualified_name()}: {param.name}'
    given = node._parameter_overrides.get(param.name)
    value = _as_default(param.default if given is None else given.value, param.default)
    plain = list(value) if isinstance(value, tuple) else value
    try:
        node.declare_parameter(param.name, plain, param.descriptor(), ignore_override=True)
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise ConfigError(f'{where} = {value!r}: {error}') from error
    except ParameterException as error:
        raise ConfigError(f'{where}: {error}') from error
    _check(where, value, param)
    return cast(Value, value)


def _check(where: str, value: Any, param: Param) -> None:
    wanted = type(param.default)
    if type(value) is not wanted:
        name = 'list' if wanted is tuple else wanted.__name__
        raise ConfigError(f'{where} must be a {name}, found {type(value).__name__} {value!r}')
    if isinstance(value, tuple) and isinstance(param.default, tuple) and param.default:
        kind = type(param.default[0])
        for item in value:
            if type(item) is not kind:
                raise ConfigError(f'{where} must be a list of {kind.__name__}, '
                                  f'found {type(item).__name__} {item!r}')
    choices = param.meaning.choices
    words: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    for word in words:
        if choices and word not in choices:
            raise ConfigError(f"{where}: unknown value '{word}'.{nearest(str(word), choices)}")


def _as_default(value: Any, default: Value) -> Any:
    """Read YAML's ``1`` as 1.0, and arrays as tuples, where that is what is meant."""
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if isinstance(default, tuple) and isinstance(value, str | list | tuple | array):
        values: tuple[Any, ...] = (value,) if isinstance(value, str) else tuple(value)
        if default and isinstance(default[0], float):
            return tuple(float(v) if type(v) is int else v for v in values)
        return values
    return value


def _with(params: P, values: Mapping[str, Any]) -> P:
    return dataclasses.replace(params, **values)
