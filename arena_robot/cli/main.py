"""
Entry point of `arena`: find the verb that was typed, run it, report errors.

The verbs `help` and `completion` are here. Where a package is missing, the error names the extra
that has it.
"""

import argparse
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from arena_robot import DISTRIBUTION
from arena_robot.cli.verbs import parser, typed
from arena_robot.core.errors import ArenaError, ConfigError, DataError, UnknownMethod
from arena_robot.core.terminal import let_go_of_closed, plain_children

# By the first words of a verb; the longest that fits decides.
EXTRAS = {
    'demo': 'all', 'blind': 'policy', 'doctor': 'station',
    'station': 'station', 'session': 'sim', 'console': 'station', 'calibrate': 'station',
    'episode': 'exports', 'episode replay': 'station', 'view': 'rerun',
    'driver': 'station', 'embodiment': 'sim', 'emulate': 'sim',
    'policy': 'policy', 'policy rates': 'sim', 'sim': 'sim',
    'server': 'server', 'admin': 'server', 'credits': 'server', 'results': 'server',
    'login': 'policy',
    'rank': 'ranking', 'vote': 'ranking', 'game': 'ranking', 'report': 'exports',
    'compare': 'exports', 'publish': 'hub', 'study': 'exports', 'study report': 'policy',
    'audit': 'judges', 'judge': 'judges', 'skill': 'sim',
    'help': 'all', 'completion': 'ranking',
}


def extra_of(words: Sequence[str]) -> str:
    """Return the extra of the verb that was typed; `all` for other words."""
    line = ' '.join(words)
    fits = [verb for verb in EXTRAS if re.match(rf'{verb}\b', line)]
    return EXTRAS[max(fits, key=len)] if fits else 'all'


def what_is_missing(error: ImportError, words: Sequence[str]) -> str:
    """Return what to install when a module of ours misses a package; '' for any other error."""
    from importlib import metadata
    importing = [frame.f_globals.get('__name__', '') for frame, _ in
                 traceback.walk_tb(error.__traceback__) if 'importlib' not in
                 frame.f_code.co_filename]
    if not isinstance(error, ModuleNotFoundError) or not importing[-1].startswith('arena_robot'):
        return ''
    try:
        metadata.distribution(DISTRIBUTION)
        how = f"pip install '{DISTRIBUTION}[{extra_of(words)}]'"
    except metadata.PackageNotFoundError:
        how = 'run make setup in the folder of the clone'
    return f'arena {" ".join(words[:1])} needs {error.name}, which is not installed: {how}'


OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
_NUMBER = re.compile(r'\[Errno -?\d+\] ')    # the system's error has words too


def say(text: str) -> None:
    """Print an error without the numbers that the system gives to its own."""
    print('arena:', _NUMBER.sub('', text), file=sys.stderr)


def complete() -> None:
    """Tell the shell which words may follow those on its line, and end the process."""
    import argcomplete
    line = os.environ['COMP_LINE'][:int(os.environ['COMP_POINT'])]
    before = line.split()[1:] if line.endswith(' ') else line.split()[1:-1]
    argcomplete.autocomplete(parser(typed(before)), always_complete_options='long')


def interrupted() -> int:
    """Say that the program was interrupted."""
    with suppress(OSError):    # the terminal was closed
        say('interrupted')
    let_go_of_closed()
    return INTERRUPTED


def not_imported(error: ImportError, words: Sequence[str]) -> int:
    """Say what to install; an interruption in a compiled module's start is one, ours is raised."""
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    if isinstance(first, KeyboardInterrupt):
        return interrupted()
    missing = what_is_missing(error, words)
    if not missing:
        raise error
    say(missing)
    return FAILED


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run ``arena`` with ``argv`` (default: the process's own) and return the exit code.

    Only the module of the verb that was typed is loaded, so that a command starts soon.
    """
    if '_ARGCOMPLETE' in os.environ:
        complete()
    os.environ.setdefault('GRPC_VERBOSITY', 'NONE')    # its errors are said once, in our words
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        args = parser(typed(words)).parse_args(words)
        plain_children()
        return int(args.run(args))
    except (ConfigError, DataError, UnknownMethod) as error:
        say(str(error))
        return USAGE
    except ArenaError as error:
        say(f'{error} [{error.code}]')
        return FAILED
    except KeyboardInterrupt:
        return interrupted()
    except ImportError as error:
        return not_imported(error, words)
    except BrokenPipeError:
        sys.stderr.close()
        return OK


def help_arguments(own: argparse.ArgumentParser) -> None:
    """Declare the verb that is asked for."""
    own.add_argument('verb', nargs='*', help='such as: policy serve')


def run_help(args: argparse.Namespace) -> int:
    """
    Print the help of a verb, or the list of all verbs.

        arena help
        arena help policy serve
    """
    leaf = parser(typed(args.verb)).leaf(args.verb)
    words = leaf.prog.split()[1:]
    if words != args.verb:
        if leaf.groups():
            leaf.parse_args(args.verb[len(words):])    # names the nearest verb
        leaf.error(f"'{' '.join(args.verb)}' is no verb; `{leaf.prog}` is")
    leaf.print_help()
    return 0


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument('shell', choices=('bash', 'zsh', 'fish'))


def run_completion(args: argparse.Namespace) -> int:
    """
    Print a script that completes `arena` in a shell.

        source <(arena completion bash)                               # in ~/.bashrc
        arena completion zsh > "${fpath[1]}/_arena"
        arena completion fish > ~/.config/fish/completions/arena.fish
    """
    from argcomplete.shell_integration import shellcode
    print(shellcode(['arena'], shell=args.shell))
    return 0


if __name__ == '__main__':
    sys.exit(main())
