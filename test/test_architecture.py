"""docs/architecture.md names rooms, folders and files that exist, and walks that are connected."""

import itertools
import re
from pathlib import Path

import pytest
from test_imports import MODULES, PACKAGE, ROW, imported

PAGE = (Path(__file__).parent.parent / 'docs' / 'architecture.md').read_text(encoding='utf-8')
WALKS = re.findall(r'<!-- walk: (.+?) -->\n(.+?)<!-- end -->', PAGE, re.DOTALL)
MOST = {'frame to bag': 12, 'frame to policy': 12, 'action chunk to arm': 12,
        'preference to standing': 13, 'uploaded episode to audit': 12}
# What maintainers ask, and what the answer's file does.
ASKED = {
    "a gripper's fault turned into words": "'an internal fault; if it comes again",
    "within the arm's limits": 'ClampReason',
    'when commands stay away': 'timeout',
    'one outside camera': 'third_person',
    'moves are possible in a state': 'class Move',
    'after a restart': 'notice',
    'two policies does a station get': 'def fits',
    'Does a session count': 'CountingRules',
    'before the reveal': 'PolicyError',
    'a recorded episode checked': 'CheckLimits',
    'ranking methods': 'RankingMethod',
    'a key of a configuration file refused': 'ConfigError'}


def rows(table):
    """Return the cells of a table's rows, without its head."""
    lines = [line for line in table.splitlines() if line.startswith('|')][2:]
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]


def steps(table):
    """Return (file, the things between it and the file before) of a walk."""
    return [(cells[1].strip('`'), re.findall('`(.+?)`', cells[3])) for cells in rows(table)]


def linked(first, second):
    """Return whether one file imports the other, or a word that is no file is named in it."""
    if not second.endswith(('.py', '.js')):
        return second in (PACKAGE / first).read_text(encoding='utf-8')
    if not first.endswith(('.py', '.js')):
        return linked(second, first)
    files = {PACKAGE / first, PACKAGE / second}
    return any(MODULES.get(name) in files - {file} for file in files if file.suffix == '.py'
               for name in imported(file))


def test_the_table_of_rooms_is_that_of_the_package():
    table = rows(PAGE.split('<!-- rooms -->')[1].split('\n\n')[0])
    named = {cells[1].strip('`'): int(cells[0]) for cells in table}
    assert named == {room: ROW[room] for room in ROW if (PACKAGE / room).is_dir()}
    for _, room, folders, _ in table:
        home = PACKAGE / room.strip('`')
        listed = {path.relative_to(home).parts[0] for path in home.glob('*/**/*')
                  if path.is_file() and '__pycache__' not in path.parts}
        assert set(re.findall('`(.+?)`', folders)) == listed, room


def test_every_file_that_the_page_names_exists():
    named = {name for name in re.findall(r'`([\w/]+/[\w/]+\.(?:py|js))`', PAGE)
             if not name.startswith('test/')}
    assert len(named) > 30
    assert not {name for name in named if not (PACKAGE / name).is_file()}


@pytest.mark.parametrize(('name', 'table'), WALKS, ids=[name for name, _ in WALKS])
def test_a_walk_goes_from_file_to_connected_file(name, table):
    walk = steps(table)
    assert len(walk) <= MOST[name]
    for (before, _), (after, over) in itertools.pairwise(walk):
        chain = [before, *over, after]
        broken = [pair for pair in itertools.pairwise(chain) if not linked(*pair)]
        assert not broken, f'{name}: {broken} neither import each other nor name the same thing'


def test_the_frame_walks_to_the_call_of_the_policy():
    [table] = [table for name, table in WALKS if name == 'frame to policy']
    last, _ = steps(table)[-1]
    assert 'self._policy.infer(observation, episode)' in (PACKAGE / last).read_text()


def test_the_page_says_which_file_answers_what_maintainers_ask():
    table = rows(PAGE.split('<!-- questions -->')[1].split('<!-- end -->')[0])
    answers = {question: (file.strip('`'), name.strip('`')) for question, file, name in table}
    assert len(answers) == len(ASKED) >= 10
    for words, inside in ASKED.items():
        [(file, name)] = [answer for question, answer in answers.items() if words in question]
        text = (PACKAGE / file).read_text(encoding='utf-8')
        assert inside in text, f'{file} does not answer: {words}'
        assert re.search(rf'^(?:def |class )?{name}\b', text, re.MULTILINE), f'{file}: {name}'


def test_walks_that_are_not_connected_are_found():
    assert linked('policy/grpc/client.py', 'policy/grpc/wire.py')
    assert not linked('policy/grpc/wire.py', 'ranking/pairwise/elo.py')
    assert not linked('server/service.py', '/api/judge')
    assert sorted(name for name, _ in WALKS) == sorted(MOST)
