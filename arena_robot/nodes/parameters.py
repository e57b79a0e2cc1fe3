"""Parameters as a table: declared with description and range, unknown ones refused by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterException,
)
from rclpy.node import Node

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError

_ALWAYS = ('use_sim_time', 'start_type_description_service')


@dataclass(frozen=True)
class Param:
    """
    One parameter: its ``default`` also sets its type.

    ``low`` and ``high`` bound numbers, ``choices`` strings. What is not ``live`` can only be set
    before the node starts.
    """

    name: str
    default: Any
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    live: bool = False

    def descriptor(self) -> ParameterDescriptor:
        """Return what tools show and rclpy enforces."""
        out = ParameterDescriptor(description=self.description, read_only=not self.live)
        if self.choices:
            out.additional_constraints = f"one of {', '.join(self.choices)}"
        if self.low is not None and self.high is not None:
            if isinstance(self.default, float):
                out.floating_point_range = [
                    FloatingPointRange(from_value=float(self.low), to_value=float(self.high))]
            else:
                out.integer_range = [
                    IntegerRange(from_value=int(self.low), to_value=int(self.high), step=1)]
        return out


def declare(node: Node, params: Sequence[Param]) -> dict[str, Any]:
    """
    Declare ``params`` and return their values.

    Raises ConfigError for a value of the wrong type, out of range or not among the choices.
    """
    return {param.name: _declare(node, param) for param in params}


def refuse_unknown(node: Node) -> None:
    """Raise ConfigError when a file or command line gives a parameter that nobody declared."""
    for name in node._parameter_overrides:
        if not node.has_parameter(name) and not name.startswith('qos_overrides.'):
            known = [p for p in node._parameters if not p.startswith('qos_overrides')]
            raise ConfigError(f"{node.get_fully_qualified_name()}: unknown parameter '{name}'."
                              f'{nearest(name, set(known) - set(_ALWAYS))}')


def _declare(node: Node, param: Param) -> Any:
    where = f'{node.get_fully_qualified_name()}: {param.name}'
    given = node._parameter_overrides.get(param.name)
    value = given.value if given is not None else param.default
    value = _as_default(value, param.default)
    try:
        node.declare_parameter(param.name, value, param.descriptor(), ignore_override=True)
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise ConfigError(f'{where} = {value!r}: {error}') from error
    except ParameterException as error:
        raise ConfigError(f'{where}: {error}') from error
    if type(value) is not type(param.default) and not isinstance(value, list):
        raise ConfigError(f'{where} must be a {type(param.default).__name__}, '
                          f'found {type(value).__name__} {value!r}')
    if param.choices and value not in param.choices:
        raise ConfigError(f"{where}: unknown value '{value}'.{nearest(str(value), param.choices)}")
    return value


def _as_default(value: Any, default: Any) -> Any:
    """Read YAML's ``1`` as 1.0, and arrays as lists, where that is what is meant."""
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if isinstance(default, list):
        values = list(value) if not isinstance(value, str) else [value]
        if default and isinstance(default[0], float):
            return [float(v) if type(v) is int else v for v in values]
        return values
    return value
