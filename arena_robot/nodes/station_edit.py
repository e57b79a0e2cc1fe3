"""Changes of a station file that keep its comments: parameters of one node."""

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from arena_robot.core.errors import ConfigError
from arena_robot.core.files import write_text


def with_parameters(text: str, node: str, values: Mapping[str, object]) -> str:
    """
    Return a station file's text with parameters of ``node`` set; everything else is as it was.

    Raises ConfigError where the file has no section for the node, has it more than once, or
    writes it in one line.
    """
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines)
             if re.fullmatch(rf'(\S*/)?{re.escape(node)}:\s*(#.*)?', line)]
    wanted = ', '.join(f'{name}: {_plain(value)}' for name, value in values.items())
    if len(heads) != 1:
        raise ConfigError(f"the station file has {len(heads)} sections '/**/{node}:' over several "
                          f'lines, wanted is one; write by hand: {wanted}')
    start = next((i for i in range(heads[0] + 1, len(lines))
                  if re.fullmatch(r'\s+ros__parameters:\s*(#.*)?', lines[i])), None)
    end = next((i for i in range(heads[0] + 1, len(lines)) if re.match(r'[^\s#]', lines[i])),
               len(lines))
    if start is None or start >= end:
        raise ConfigError(f"the section of {node} has no line 'ros__parameters:' of its own; "
                          f'write by hand: {wanted}')
    indent = next((re.match(r'\s*', line)[0] for line in lines[start + 1:end]  # type: ignore[index]
                   if line.strip() and not line.strip().startswith('#')), '    ')
    names = '|'.join(map(re.escape, values))
    kept = _without(lines[start + 1:end], indent, names)
    added = [f'{indent}{name}: {_plain(value)}' for name, value in values.items()]
    out = '\n'.join([*lines[:start + 1], *added, *kept, *lines[end:]]) + '\n'
    _require_only(text, out, node, values)
    return out


def save_parameters(path: Path, node: str, values: Mapping[str, object]) -> Path:
    """
    Set parameters of a node in a station file, atomically; return where the old file is kept.

    Raises ConfigError as :func:`with_parameters`.
    """
    try:
        before = path.read_text(encoding='utf-8')
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror}') from error
    after = with_parameters(before, node, values)
    old = next(one for n in range(1, 10_000)
               if not (one := path.with_name(f'{path.name}.{n}.old')).exists())
    write_text(old, before)
    write_text(path, after)
    return old


def _without(lines: list[str], indent: str, names: str) -> list[str]:
    """Return lines without those of the parameters ``names``, which may be lists over lines."""
    out, skipping = [], False
    for line in lines:
        if re.match(rf'{indent}({names}):', line):
            skipping = True
        elif skipping and (not line.strip() or re.match(rf'{indent}[^\s\-\]]', line)):
            skipping = False
        if not skipping:
            out.append(line)
    return out


def _require_only(before: str, after: str, node: str, values: Mapping[str, object]) -> None:
    """Raise ConfigError unless the texts differ in these parameters only."""
    old, new = yaml.safe_load(before), yaml.safe_load(after)
    key = next(one for one in old if str(one).rsplit('/', 1)[-1] == node)
    old[key]['ros__parameters'] = {**(old[key]['ros__parameters'] or {}), **values}
    if old != new:
        raise ConfigError(f'the section of {node} cannot be changed without a change elsewhere; '
                          f'write its parameters by hand: {dict(values)}')


def _plain(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).splitlines()[0]
