"""The parser of `arena`: what is mistyped is answered with the nearest known word."""

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from arena_robot.core.config import nearest


class VerbParser(argparse.ArgumentParser):
    """A parser of a verb, or of a group of verbs: without a verb a group prints its help."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; a group of verbs alone is an error that lists them."""
        self._words = sys.argv[1:] if args is None else list(args)
        if not self._words and self.groups() and '_ARGCOMPLETE' not in os.environ:
            self.print_help()
            self.exit(2)
        return super().parse_known_args(self._words, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an unknown option is an error that names the most similar one."""
        words = sys.argv[1:] if args is None else list(args)
        values, unknown = self.parse_known_args(words, namespace)
        if unknown:
            self.leaf(words).error(f"unknown: {' '.join(unknown)}")
        return values

    def groups(self) -> 'list[argparse._SubParsersAction[VerbParser]]':
        """Return the verbs that may follow, as argparse keeps them."""
        return [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]

    def leaf(self, words: Sequence[str]) -> 'VerbParser':
        """Return the parser of the verb at the start of ``words``."""
        for group in self.groups():
            if words and words[0] in group.choices:
                return group.choices[words[0]].leaf(words[1:])
        return self

    def similar_options(self) -> list[str]:
        """Return for each unknown option the most similar one, as a question."""
        options = [o for action in self._actions for o in action.option_strings if o[:2] == '--']
        words = [word.split('=')[0] for word in self._words if word[:2] == '--']
        near = [difflib.get_close_matches(word, options, n=1) for word in words
                if word not in options]
        return [f"Did you mean '{matches[0]}'?" for matches in near if matches]

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, with the options that may have been meant, and exit with 2."""
        self.print_usage(sys.stderr)
        hints = '. '.join([message, *self.similar_options()])
        self.exit(2, f'arena: {hints}\n`{self.prog} --help` lists everything.\n')

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError, with the nearest choice, for a value that is none."""
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            kind = 'verb' if isinstance(action, argparse._SubParsersAction) else 'choice'
            hint = f" Did you mean '--{value}'?" if f'--{value}' in self._option_string_actions \
                else nearest(str(value), choices)
            raise argparse.ArgumentError(
                None if kind == 'verb' else action, f"there is no {kind} '{value}'.{hint}")
