"""Entry point of `arena`: find the verbs, parse the arguments, run one, report errors."""

import argparse
import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from keyword import iskeyword
from types import ModuleType

import arena_robot
from arena_robot import cli
from arena_robot.cli.parsing import VerbParser
from arena_robot.cli.verb_map import MapParser
from arena_robot.core.errors import ArenaError, ConfigError, DataError, UnknownMethod
from arena_robot.core.terminal import let_go_of_closed, plain_children

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def verbs() -> list[ModuleType]:
    """Return the verb modules of this package, sorted by verb."""
    names = [m.name for m in pkgutil.iter_modules(cli.__path__)]
    found = [importlib.import_module(f'arena_robot.cli.{name}') for name in names]
    return sorted((m for m in found if 'VERB' in vars(m)), key=lambda m: m.VERB)


def typed(words: Sequence[str]) -> list[ModuleType]:
    """Return the module of the verb at the start of ``words``; none if it has another name."""
    names = {m.name for m in pkgutil.iter_modules(cli.__path__)}
    for count in (2, 1):
        verb = ' '.join(words[:count])
        name = re.sub('[ -]', '_', verb)
        name += '_' * iskeyword(name)
        if name in names:
            module = importlib.import_module(f'arena_robot.cli.{name}')
            if vars(module).get('VERB') == verb:
                return [module]
    return []


def parser(modules: Sequence[ModuleType] = ()) -> MapParser:
    """Return the parser of the whole command, or of the verbs of ``modules`` alone."""
    top = MapParser(prog='arena', description=arena_robot.__doc__)
    top.modules = modules or verbs()
    top.add_argument('--version', action='version', version=f'arena {arena_robot.__version__}')
    groups = {(): top.add_subparsers(title='verbs', metavar='VERB', required=True,
                                     parser_class=VerbParser)}
    for module in top.modules:
        words = tuple(module.VERB.split())
        for end in range(1, len(words)):
            if words[:end] not in groups:
                text = f"{' '.join(words[:end])} …"
                group = groups[words[:end - 1]].add_parser(words[end - 1], help=text)
                groups[words[:end]] = group.add_subparsers(metavar='VERB', required=True)
        leaf = groups[words[:-1]].add_parser(
            words[-1], help=module.HELP, description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(leaf)
        leaf.set_defaults(run=module.run)
    return top


def complete() -> None:
    """Tell the shell which words may follow those on its line, and end the process."""
    import argcomplete
    line = os.environ['COMP_LINE'][:int(os.environ['COMP_POINT'])]
    before = line.split()[1:] if line.endswith(' ') else line.split()[1:-1]
    argcomplete.autocomplete(parser(typed(before)), always_complete_options='long')


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run ``arena`` with ``argv`` (default: the process's own) and return the exit code.

    Only the module of the verb that was typed is loaded, so that a command starts soon.
    """
    if '_ARGCOMPLETE' in os.environ:
        complete()
    words = sys.argv[1:] if argv is None else argv
    args = parser(typed(words)).parse_args(words)
    plain_children()
    try:
        return int(args.run(args))
    except (ConfigError, DataError, UnknownMethod) as error:
        print(f'arena: {error}', file=sys.stderr)
        return USAGE
    except ArenaError as error:
        print(f'arena: {error} [{error.code}]', file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        with suppress(OSError):    # the terminal was closed
            print('arena: interrupted', file=sys.stderr)
        let_go_of_closed()
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return OK


if __name__ == '__main__':
    sys.exit(main())
