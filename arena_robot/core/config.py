"""YAML files as frozen dataclasses; the error for an unknown key names the nearest known one."""

import dataclasses
import difflib
import functools
import types
import typing
from collections.abc import Hashable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from arena_robot.core.errors import ConfigError

T = TypeVar('T')


def nearest(word: str, known: typing.Iterable[str]) -> str:
    """Return a hint such as `` Did you mean 'x'? Known: x, y.`` for a message."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ''
    return f"{hint} Known: {', '.join(names)}."


def read_yaml(path: str | Path) -> dict[str, Any]:
    """
    Return the mapping in a YAML file; an empty file is an empty mapping.

    Raises ConfigError when the file is missing, unreadable, or not a mapping.
    """
    import yaml
    try:
        data = parse_yaml(Path(path).read_text(encoding='utf-8'))
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror or error}') from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f'{path} is not valid YAML: {error}') from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f'{path} must hold a mapping, found a {type(data).__name__}')
    return data


def parse_yaml(text: str) -> Any:
    """
    Return what a YAML text holds; raises ``yaml.YAMLError``.

    libyaml reads it, several times as fast as PyYAML's own parser, which then says what is wrong.
    """
    import yaml
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader if yaml.__with_libyaml__
                         else yaml.SafeLoader)
    except yaml.YAMLError:
        return yaml.safe_load(text)


def load(cls: type[T], path: str | Path) -> T:
    """Read a YAML file into the dataclass ``cls``; see :func:`build`."""
    return build(cls, read_yaml(path), where=str(path))


def build(cls: type[T], data: Mapping[str, Any], where: str = 'config') -> T:
    """
    Return ``cls(**data)`` with nested dataclasses, enums, tuples and numbers converted.

    ``where`` names the source in messages. Raises ConfigError on an unknown or missing key and
    on a value of the wrong type.
    """
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    hints = _hints(cls)  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            raise ConfigError(f"{where}: unknown key '{key}'.{nearest(str(key), fields)}")
    values = {key: _convert(hints[key], value, f'{where}.{key}') for key, value in data.items()}
    missing = [name for name, f in fields.items() if name not in values
               and f.default is dataclasses.MISSING
               and f.default_factory is dataclasses.MISSING]
    if missing:
        raise ConfigError(f"{where}: missing {', '.join(missing)}")
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise ConfigError(f'{where}: {error}') from error


def mistakes(cls: type[Any], data: Mapping[str, Any], where: str) -> list[str]:
    """Return a line for every mistake for which :func:`build` would raise, not only the first."""
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    out, values = [], {}
    for key, value in data.items():
        if key not in fields:
            out.append(f"{where}: unknown key '{key}'.{nearest(str(key), fields)}")
            continue
        hint, inside = typing.get_type_hints(cls)[key], f'{where}.{key}'
        kind = (typing.get_args(hint) or (None, None))[-1]
        if dataclasses.is_dataclass(kind) and isinstance(value, Mapping) and all(
                isinstance(part, Mapping) for part in value.values()):
            out += [line for name, part in value.items()
                    for line in mistakes(typing.cast('type[Any]', kind), part, f'{inside}.{name}')]
            continue
        try:
            values[key] = _convert(hint, value, inside)
        except ConfigError as error:
            out.append(str(error))
    missing = [name for name, f in fields.items() if name not in data
               and f.default is f.default_factory is dataclasses.MISSING]
    if missing:
        out.append(f"{where}: missing {', '.join(missing)}")
    if not out:
        try:
            build(cls, data, where)
        except ConfigError as error:
            out.append(str(error))
    return out


@functools.cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_union(hint, value, where)
    if origin is tuple:
        return _convert_tuple(hint, value, where)
    if origin is list:
        return _convert_items(typing.get_args(hint)[0], value, where)
    if origin in (dict, Mapping):
        return _convert_mapping(hint, value, where)
    if dataclasses.is_dataclass(hint):
        if isinstance(hint, type) and isinstance(value, hint):
            return value
        if not isinstance(value, Mapping):
            raise _wrong(where, 'a mapping', value)
        return build(hint, value, where)  # type: ignore[arg-type]
    return _convert_scalar(hint, value, where)


def _convert_union(hint: Any, value: Any, where: str) -> Any:
    options = typing.get_args(hint)
    if value is None and type(None) in options:
        return None
    errors = []
    for option in options:
        if option is not type(None):
            try:
                return _convert(option, value, where)
            except ConfigError as error:
                errors.append(error)
    raise errors[0] if errors else _wrong(where, str(hint), value)


def _convert_items(kind: Any, value: Any, where: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise _wrong(where, 'a list', value)
    return [_convert(kind, v, f'{where}[{i}]') for i, v in enumerate(value)]


def _convert_tuple(hint: Any, value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(where, 'a list', value)
    kinds = typing.get_args(hint)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_convert_items(kinds[0], value, where))
    if len(kinds) != len(value):
        raise _wrong(where, f'a list of {len(kinds)}', value)
    return tuple(_convert(k, v, f'{where}[{i}]')
                 for i, (k, v) in enumerate(zip(kinds, value, strict=True)))


def _convert_mapping(hint: Any, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(where, 'a mapping', value)
    kind = (typing.get_args(hint) or (str, Any))[1]
    return {str(k): _convert(kind, v, f'{where}.{k}') for k, v in value.items()}


def _convert_scalar(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, Enum):
        members = {str(m.value): m for m in hint}
        if str(value) not in members:
            raise ConfigError(f"{where}: unknown value '{value}'.{nearest(str(value), members)}")
        return members[str(value)]
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is int and isinstance(value, bool):
        raise _wrong(where, 'int', value)
    if isinstance(hint, type) and not isinstance(value, hint):
        raise _wrong(where, hint.__name__, value)
    return value


def _wrong(where: str, wanted: str, value: Any) -> ConfigError:
    return ConfigError(f'{where}: expected {wanted}, found {type(value).__name__} {value!r}')


def shipped(file: str) -> Path:
    """
    Return the path of a file that a parameter names.

    A relative one is looked for in the working folder, then in what the package ships, such as
    ``config/policies.yaml``.
    """
    path = Path(file).expanduser()
    if path.is_absolute() or path.exists():
        return path
    here = Path(__file__)
    folders = [here.parents[2], *(prefix / 'share' / 'arena_robot' for prefix in here.parents)]
    return next((folder / path for folder in folders if (folder / path).is_file()), path)
