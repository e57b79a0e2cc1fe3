"""
JSON in the reply of a model: found strictly, checked against a small JSON schema.

The reply is the JSON alone, or one fenced block with it. Nothing is repaired.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from arena_robot.core.errors import ModelBadReply

_FENCED = re.compile(r'```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```', re.DOTALL)
_KINDS: Mapping[str, tuple[type, ...]] = {
    'object': (dict,), 'array': (list,), 'string': (str,), 'boolean': (bool,),
    'null': (type(None),), 'integer': (int,), 'number': (int, float)}


def parse_json(text: str, schema: Mapping[str, Any] | None = None) -> Any:
    """Return the JSON value of a reply; ModelBadReply when there is none, or two, or it is bad."""
    blocks = _FENCED.findall(text)
    if len(blocks) > 1:
        raise ModelBadReply(f'the reply has {len(blocks)} blocks, expected one: {_short(text)}')
    try:
        value = json.loads(blocks[0] if blocks else text, parse_constant=_no_constant,
                           parse_float=_finite,
                           object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ModelBadReply(f'the reply is not JSON ({error}): {_short(text)}') from error
    if schema is not None:
        check_schema(value, schema)
    return value


def check_schema(value: Any, schema: Mapping[str, Any], where: str = 'reply') -> None:
    """
    Check a value; ModelBadReply says where it does not fit.

    Known words: type, enum, properties, required, additionalProperties (False), items, minItems,
    maxItems, minimum, maximum, maxLength.
    """
    kind = schema.get('type')
    if kind is not None and not _is(value, kind):
        raise ModelBadReply(f'{where} must be {kind}, found {_short(repr(value))}')
    if 'enum' in schema and value not in schema['enum']:
        raise ModelBadReply(f'{where} must be one of {schema["enum"]}, found '
                            f'{_short(repr(value))}')
    if isinstance(value, dict):
        _check_object(value, schema, where)
    elif isinstance(value, list):
        if not schema.get('minItems', 0) <= len(value) <= schema.get('maxItems', len(value)):
            raise ModelBadReply(f'{where} has {len(value)} entries')
        for number, entry in enumerate(value):
            check_schema(entry, schema.get('items', {}), f'{where}[{number}]')
    elif isinstance(value, str):
        if len(value) > schema.get('maxLength', len(value)):
            raise ModelBadReply(f'{where} is longer than {schema["maxLength"]} characters')
    elif (isinstance(value, int | float) and not isinstance(value, bool)
          and not schema.get('minimum', value) <= value <= schema.get('maximum', value)):
        raise ModelBadReply(f'{where} is {value}')


def _check_object(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> None:
    known = schema.get('properties', {})
    for name in schema.get('required', ()):
        if name not in value:
            raise ModelBadReply(f"{where} has no '{name}'")
    for name, entry in value.items():
        if name in known:
            check_schema(entry, known[name], f'{where}.{name}')
        elif schema.get('additionalProperties') is False:
            raise ModelBadReply(f"{where} has the unknown key '{_short(name)}'")


def _is(value: Any, kind: str) -> bool:
    if kind in ('integer', 'number') and isinstance(value, bool):
        return False
    return isinstance(value, _KINDS[kind])


def _no_constant(word: str) -> None:
    raise ValueError(f'{word} is not JSON')


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f'{word} is too large')
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError('a key stands there twice')
    return members


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + '…'
