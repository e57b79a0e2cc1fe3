"""Every `arena …` command in messages, comments, pages and configuration is one that exists."""

import argparse
import ast
import functools
import re
from pathlib import Path

import pytest

from arena_robot.cli.verbs import VERBS, parser

ROOT = Path(__file__).parents[2]
TEXTS = sorted(path for pattern in (
    '*.md', 'docs/*.md', 'config/**/*.yaml', 'launch/*.py', 'Makefile', '.ci/*',
    'arena_robot/**/*.html', 'arena_robot/**/*.js', 'arena_robot/**/*.proto',
    'arena_msgs/**/*.msg', 'arena_msgs/**/*.srv', 'arena_msgs/**/*.action')
    for path in ROOT.glob(pattern) if path.is_file())
CODE = sorted((ROOT / 'arena_robot').rglob('*.py'))
# Where a command begins: in quotes of a page or message, after a colon, or at the start of a line.
MARKED = re.compile(r'[`<]arena ([^`<\n]+(?:\n[ #]*[^`<\n]+)?)[`<]')
LINE = re.compile(r'^[ #]*(?:\$ |\.venv/bin/)*arena ([a-z][a-z-]*\b[^\n]*)$', re.MULTILINE)
SPOKEN = re.compile(r': arena ((?:[a-z][a-z-]*)(?: [^\n]*)?)$')
WORDS = re.compile(r'[a-z][a-z_-]*')
OPTION = re.compile(r'(?<!\S)--[a-z][a-z-]*')


def texts_of(path):
    """Return the strings of a module with placeholders, or the text of another file."""
    if path.suffix != '.py':
        return [path.read_text(encoding='utf-8')]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.JoinedStr):
            found.append(''.join(one.value if isinstance(one, ast.Constant) else 'X'
                                 for one in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


@functools.cache
def hints():
    """Return the file of each command that a text names."""
    found = {}
    for path in [*TEXTS, *CODE]:
        for text in texts_of(path):
            for pattern in (MARKED, SPOKEN, LINE):
                if pattern is LINE and path.suffix == '.py' and '    arena ' not in text:
                    continue
                for words in pattern.findall(text):
                    line = re.sub(r'\s+#.*|\s+', ' ', words).strip()
                    found[line] = path.relative_to(ROOT).as_posix()
    return found


@functools.cache
def whole():
    """Return a parser with everything; these tests read it, none parses with it."""
    return parser(VERBS)


def leaf(words):
    """Return the parser of the longest verb at the start of ``words``, and the words after it."""
    parser = whole()
    while True:
        groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not groups:
            return parser, words
        if not words or words[0] not in groups[0].choices:
            return parser, None if words and WORDS.fullmatch(words[0]) else words
        parser, words = groups[0].choices[words[0]], words[1:]


def wrong(line):
    """Return what is wrong with a command, or nothing."""
    parser, rest = leaf(line.replace(',', ' ').split())
    if rest is None:
        return f'arena {line}: there is no such verb'
    known = {option for action in parser._actions for option in action.option_strings}
    given = OPTION.findall(re.split(r' [|;&>] | && ', ' '.join(rest))[0])
    return f'arena {line}: no option {set(given) - known}' if set(given) - known else ''


def test_every_verb_and_its_options_exist():
    assert not [f'{path}: {wrong(line)}' for line, path in sorted(hints().items()) if wrong(line)]


@pytest.mark.parametrize('line', ['dance', 'rank --no-such-option', 'skill fly'])
def test_a_verb_or_option_that_does_not_exist_is_found(line):
    assert wrong(line)


def test_many_hints_are_found():
    assert len(hints()) > 120
