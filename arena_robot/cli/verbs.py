"""
The verbs of `arena`, and the parser made of them.

A verb is a row of :data:`MAP`: the words typed after ``arena``, the module that has it, and one
line of help. For ``policy serve`` that module has ``serve_arguments(parser)``, which declares the
arguments, and ``run_serve(args) -> int``, which returns the exit code: 0 done, 1 a check or the
work failed, 2 wrong usage or input, 130 interrupted. The text of ``--help`` is the docstring of
that function, or of the module where it has no other verb. Heavy imports belong inside ``run_…``:
the list of verbs loads no verb, and a verb that is typed is loaded alone.

Every verb that prints data has ``--json``: one document on standard output, and all else on
standard error. A verb that runs until it is interrupted, or prints a file for another program, is
made with :func:`program` and has none.
"""

import argparse
import difflib
import importlib
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

import arena_robot
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


JSON_HELP = 'print JSON: one document on standard output, all else on standard error'
WIDTH, TITLE, COLUMN = 98, 14, 18


@dataclass(frozen=True)
class Verb:
    """
    A verb: its words, the module of `cli` that has it, one line of help.

    ``prints_data``: it takes ``--json``.
    """

    words: str
    module: str
    help: str
    prints_data: bool = True

    def load(self) -> tuple[Callable[[argparse.ArgumentParser], None],
                            Callable[[argparse.Namespace], int]]:
        """Import the module; return what declares the arguments, and what runs the verb."""
        module = importlib.import_module(f'arena_robot.cli.{self.module}')
        name = self.words.split()[-1].replace('-', '_')
        return getattr(module, f'{name}_arguments'), getattr(module, f'run_{name}')


@dataclass(frozen=True)
class VerbGroup:
    """Verbs with the first word in common; ``help`` stands for all of them in `arena --help`."""

    word: str
    help: str
    verbs: tuple[Verb, ...]


def program(words: str, module: str, about: str) -> Verb:
    """Return a verb that prints no data: a service, or a file for another program."""
    return Verb(words, module, about, prints_data=False)


def group(word: str, about: str, *verbs: Verb) -> VerbGroup:
    """Return a group; the words of its verbs are given without the first one."""
    return VerbGroup(word, about, tuple(
        Verb(f'{word} {verb.words}', verb.module, verb.help, verb.prints_data) for verb in verbs))


MAP: tuple[tuple[str, tuple[Verb | VerbGroup, ...]], ...] = (
    ('First steps', (
        program('demo', 'sim', 'a tournament on a simulated station, from nothing to a '
                'leaderboard'),
        program('blind', 'blind', 'compare policies blind on any robot, with a page for the '
                'phone'),
        Verb('doctor', 'doctor', 'check this machine, and say how to fix each failure'))),
    ('At a station', (
        program('station', 'station.station', 'start the nodes of a station, simulated or real'),
        program('session', 'station.session', 'run an A/B session from the terminal'),
        program('console', 'station.session', "serve the evaluator's page"),
        Verb('calibrate camera', 'station.calibrate',
             'find where a camera is with a ChArUco board, for the station file'),
        Verb('view', 'episode.folders', 'look at an episode, or at both of a session, in Rerun'),
        group('episode', 'recorded episodes: check, derive, recover, replay, export, import',
              Verb('check', 'episode.folders',
                   'check whether an episode on disk is complete and valid'),
              Verb('derive', 'episode.folders',
                   'write steps.npz, videos and episode.json from the bag of an episode'),
              Verb('recover', 'episode.folders',
                   'recover an episode whose recording was cut off or damaged'),
              Verb('replay', 'episode.replay', 'replay an episode below /replay, or query a '
                   'policy again with its observations'),
              Verb('export', 'episode.folders',
                   'write episodes as DROID, RoboArena or LeRobot data'),
              Verb('import', 'episode.folders',
                   'read a RoboArena data dump or CSV tables into session records')))),
    ('For authors', (
        Verb('driver check', 'driver', 'check an arm, gripper or camera driver'),
        group('embodiment', 'what a robot is: arms, grippers, cameras, layouts of actions',
              Verb('check', 'embodiment', 'explain every mistake in the file of an embodiment'),
              Verb('list', 'embodiment', 'list the embodiments by name'),
              Verb('propose', 'embodiment', "write an embodiment's file for the arm in a model")),
        group('emulate', "devices without the hardware: DROID's NUC, FR3, Robotiq, ZED",
              program('droid-nuc', 'emulate',
                      "emulate DROID's server on the NUC: a simulated arm and gripper"),
              program('fr3', 'emulate', "emulate a Franka's control box (FCI): a simulated arm"),
              program('robotiq', 'emulate', 'emulate a 2F-85 gripper on a serial port'),
              program('zed', 'emulate', 'emulate ZED cameras: a folder that stands in for their '
                      'SDK')),
        group('policy', 'policies: list, serve, check, rates, submit to a server, mine',
              program('serve', 'policy.serve', 'serve a policy on a port'),
              Verb('list', 'policy.serve', 'list the policies by name'),
              Verb('check', 'policy.check', 'run the conformance suite against a policy server'),
              Verb('rates', 'policy.rates',
                   'print success rates of policies on the simulated station'),
              Verb('submit', 'policy.submit', 'submit your policy to an arena server'),
              Verb('mine', 'policy.submit', 'list your policies on an arena server'),
              Verb('webhook', 'policy.submit',
                   'have a server tell yours of suspensions, sessions, studies')),
        group('sim', 'the simulated station: tasks, scripted expert, contact sheet',
              Verb('tasks', 'sim', 'list the tasks of the simulated station'),
              Verb('expert', 'sim', 'run the scripted expert on tasks of the simulated station'),
              Verb('contact-sheet', 'sim', 'render all simulated tasks from all cameras into one '
                   'image')))),
    ('The server', (
        program('server', 'server', 'run the arena server'),
        group('admin', 'accounts, stations, tokens, policies, backups, rescue, erasure',
              Verb('status', 'admin', 'say what a maintainer should know today'),
              Verb('account', 'admin', 'add a person: evaluator, owner or maintainer'),
              Verb('station', 'admin', 'add a robot station'),
              Verb('accounts', 'admin', 'list the accounts of people'),
              Verb('stations', 'admin', 'list the stations'),
              Verb('token', 'admin', 'rotate or revoke tokens'),
              Verb('policy', 'admin', 'approve or suspend a policy, or clear its unsafe reports'),
              Verb('backup', 'admin', 'back up a server, which may run meanwhile'),
              Verb('restore', 'admin', 'restore a backup of a server, and check it'),
              Verb('rescue', 'admin', "make a maintainer's token on the server's own machine"),
              Verb('hide', 'admin', 'hide what people typed in a session, or show it again'),
              Verb('release', 'admin', 'freeze the results for citations, with hashes in the log'),
              Verb('erase', 'admin', 'delete the files of a session; the log keeps their hashes'),
              Verb('blur', 'admin', 'blur a part of a video of a session, for good')),
        Verb('login', 'login', 'keep which server you use, and your token there'),
        Verb('credits', 'policy.submit', 'show, give and spend your credits on an arena server'),
        group('results', 'what a server holds: export, verify, correct, categorise',
              Verb('export', 'results', 'export tables and sessions of an arena server'),
              Verb('verify', 'results', "check a server's leaderboard offline, from its log"),
              Verb('correct', 'results', 'append a correction to a session, or withdraw it'),
              Verb('categorise', 'results', 'say what kind of task an instruction is')))),
    ('Rankings', (
        Verb('compare', 'compare', 'say whether one policy is better than another: 17/20 14/20'),
        Verb('rank', 'rank.rank', 'rank policies from A/B sessions'),
        Verb('vote', 'rank.vote', 'aggregate ranked ballots with a voting rule'),
        Verb('game', 'rank.vote', 'rate the strategies of a game, or models and tasks by '
             'their scores'),
        Verb('publish', 'study.declared', 'put a study or an export on the Hugging Face Hub'),
        Verb('report', 'rank.report', 'report on a policy with checked claims and citations'),
        group('study', 'declare a study, plan, check, report it; how far to trust a ranking',
              Verb('new', 'study.declared', 'ask six questions and write a study'),
              Verb('plan', 'study.declared', 'say how many blocks a study needs'),
              Verb('check', 'study.declared', "check a study's file, and print its hash"),
              Verb('report', 'study.declared', 'write the page of a study that has ended'),
              Verb('send', 'study.declared', 'send a study that has ended to an arena server'),
              Verb('methods', 'study.methods', 'measure how well methods recover a reference '
                   'ranking'),
              Verb('pairs', 'study.methods', 'show how many comparisons the informative choice of '
                   'pairs saves'),
              Verb('papers', 'study.papers', 'compute published tables again from public data')))),
    ('Progress', (
        Verb('audit', 'judge.audit', 'measure how far, how directly and how steadily episodes '
             'got'),
        group('judge', 'judges of progress: list, train, measure, serve',
              Verb('bench', 'judge.judges',
                   'measure judges on pairs of instants with known order'),
              program('label', 'judge.judges', "serve a page to label a lab's own episodes"),
              Verb('list', 'judge.judges', 'list the judges'),
              Verb('noise', 'judge.judges', 'measure a judge on static clips: sigma and epsilon'),
              program('serve', 'judge.judges', "serve a judge under RoboMeter's HTTP protocol"),
              Verb('train', 'judge.judges',
                   'train the local judge on episodes with known progress')),
        group('skill', 'generated skills: specify, generate, run, label, verify, measure',
              Verb('spec', 'skill.spec', 'list the tasks of generated skills, or show one'),
              Verb('propose', 'skill.spec', 'have a language model propose tasks of a scene'),
              Verb('generate', 'skill.solutions',
                   'have a policy model write solutions of a task'),
              Verb('run', 'skill.solutions',
                   'execute a solution of a skill task on the simulated station'),
              Verb('label', 'skill.datasets', 'execute solutions and label their prefixes'),
              Verb('show', 'skill.datasets',
                   'show solutions with their subtasks, labels and scores'),
              Verb('pool', 'skill.datasets', 'show or grow the pool of exemplar solutions'),
              Verb('train', 'skill.datasets', 'train the verifier of solutions'),
              Verb('verify', 'skill.solutions', 'score solutions before they are executed'),
              Verb('solve', 'skill.solutions',
                   'solve a task, verified while it is written and while it runs'),
              Verb('export', 'skill.solutions', 'make a policy of a verified solution'),
              Verb('bench', 'skill.bench', 'measure exemplars and verifier on held-out tasks')))),
    ('', (
        program('help', 'main', 'print the help of a verb'),
        program('completion', 'main', 'print completions for bash, zsh or fish'))),
)


def _verbs() -> Iterator[Verb]:
    for row in chain.from_iterable(rows for _, rows in MAP):
        yield from (row,) if isinstance(row, Verb) else row.verbs


VERBS = tuple(_verbs())


class MapParser(VerbParser):
    """The parser of `arena`; its help lists verbs and groups of verbs by user."""

    def format_help(self) -> str:
        """Return usage and description, a line for each verb or group, and where more is said."""
        lines = [f'usage: arena VERB …    {self.description}']
        for title, rows in MAP[:-1]:
            for number, row in enumerate(rows):
                name = row.words if isinstance(row, Verb) else f'{row.word} …'
                lines.append(f'{"" if number else title:<{TITLE}}{name:<{COLUMN}}{row.help}')
        lines += textwrap.wrap(
            '`arena VERB --help` and `arena help VERB` say more, with examples; `arena '
            'completion` is for your shell. Exit codes: 0 done, 1 failed or no, 2 wrong usage or '
            'input, 130 interrupted.', WIDTH)
        return '\n'.join(lines) + '\n'


def typed(words: Sequence[str]) -> tuple[Verb, ...]:
    """Return the verb at the start of ``words``, alone; nothing where there is none."""
    return tuple(verb for verb in VERBS
                 if (verb_words := verb.words.split()) == list(words[:len(verb_words)]))


def parser(verbs: Sequence[Verb] = ()) -> MapParser:
    """Return the parser of some verbs; without any, one that knows only the names of all."""
    top = MapParser(prog='arena', description=arena_robot.__doc__)
    top.add_argument('--version', action='version', version=f'arena {arena_robot.__version__}')
    groups = {'': top.add_subparsers(title='verbs', metavar='VERB', required=True,
                                     parser_class=VerbParser)}
    for verb in verbs or VERBS:
        first, _, last = verb.words.rpartition(' ')
        if first not in groups:
            group_parser = groups[''].add_parser(first, help=f'{first} …')
            groups[first] = group_parser.add_subparsers(metavar='VERB', required=True)
        leaf = groups[first].add_parser(last, help=verb.help, formatter_class=argparse
                                        .RawDescriptionHelpFormatter)
        if verbs:
            _fill(leaf, verb)
    return top


def _fill(leaf: argparse.ArgumentParser, verb: Verb) -> None:
    add_arguments, run = verb.load()
    alone = sum(row.module == verb.module for row in VERBS) == 1
    leaf.description = inspect.getdoc(inspect.getmodule(run) if alone else run)
    add_arguments(leaf)
    if verb.prints_data:
        leaf.add_argument('--json', action='store_true', help=JSON_HELP)
    leaf.set_defaults(run=run)
