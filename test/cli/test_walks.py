"""
First hours from the pages alone, by role; see page_walks.py.

`make first-hours` runs all and prints of each: role, page, commands, seconds, passed or the
command that failed; and the commands of the pages that run elsewhere only, with the reason.
"""

import importlib
import json
import os
import re
import sys
import time

import pytest
from page_walks import PAGES, ROOT, Walk, commands, left_out, walks

from arena_robot.core.verdict import Asked, Extras, asked_at

pytest.importorskip('rclpy', reason='ROS 2 is not installed')
pytest.importorskip('arena_msgs', reason='arena_msgs is not built')

WALKS = walks()
ROLES = {
    'reader': ('readme', 'demonstration'),
    'own table': ('ranking',),
    'blind study': ('blind',),
    'policy author': ('own policy', 'author'),
    'lab engineer': ('simulation', 'droid', 'ros', 'two stations'),
    'evaluator': ('terminal',),
    'maintainer': ('server', 'maintainer'),
    'episodes': ('episodes', 'replay'),
    'audit': ('audit',),
    'skills': ('skills',),
    'extending': ('extending',)}
SHORT = ('simulation',)
LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='takes minutes with the others: make first-hours')
# Commands that no machine without more can run, by what they are.
ELSEWHERE = (
    (r'^(ros2|rviz2|colcon|foxglove|rosdep|sudo|source)\b', 'an installed ROS 2, or root'),
    (r'example\.org|gpu[-\w]*:|host:\d|172\.16|//my-|NAME|SESSION|\bDIR\b|…',
     "somebody's server, robot or files"),
    (r'^(arena (station|console|driver).*(my_lab|serial_number)|.*ZedCamera)', 'a robot'),
    (r'^(pip|uvx|uv|docker|podman|git|make)\b', 'a package index, a clone or a container engine'))
BLOCK = re.compile(r'^```(\w*)[^\n]*\n(.*?)^```', re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r'^(?:\$ )?(?:[A-Z_]+=\S+ )?(?:arena|ros2|pip|make|python) ', re.MULTILINE)


def shell(text):
    """Return the blocks of commands of a page, or of a section."""
    return [block for language, block in BLOCK.findall(text)
            if language in ('', 'console', 'bash') and COMMAND.search(block)]


def submitted(folder):
    """Return the sessions in a folder that were submitted, and revealed as promised."""
    paths = []
    for path in folder.rglob('session.json'):
        data = json.loads(path.read_text(encoding='utf-8'))
        if data.get('state') == 'done' and data.get('verified'):
            paths.append(path)
    return paths


@pytest.fixture
def phone(request, monkeypatch):
    """Return a function that opens the page of `arena blind` on a phone, which is Chromium."""
    def opened(link):
        monkeypatch.syspath_prepend(ROOT / 'test' / 'blind')
        return importlib.import_module('test_blind_page').Phone(
            request.getfixturevalue('browser'), link)
    return opened


@pytest.mark.parametrize('name', [name if name in SHORT else pytest.param(name, marks=LONG)
                                  for name in WALKS])
def test_a_first_time_reader_does_what_the_page_says(name, tmp_path, phone):
    page, blocks = WALKS[name]
    begun, result = time.monotonic(), 'failed'
    with Walk(tmp_path, phone=phone) as walk:
        try:
            for block in blocks:
                walk.do(block)
            if any(words in block.text for block in blocks
                   for words in ('arena session', 'arena demo')):
                assert submitted(tmp_path), walk.report()
            result = 'passed'
        finally:
            role = next(role for role, names in ROLES.items() if name in names)
            at = '' if result == 'passed' else f' at: {walk.ran[-1]}'
            sys.stdout.write(f'\n{role}: {page.relative_to(ROOT)} ({name}), {len(walk.ran)} '
                             f'commands, {time.monotonic() - begun:.0f} s, {result}{at}\n')


def test_at_least_ten_roles_have_a_first_hour():
    assert len(ROLES) >= 10
    assert sorted(WALKS) == sorted(name for names in ROLES.values() for name in names)
    assert {page.name for page, _ in WALKS.values()} >= {
        'README.md', 'first_hour.md', 'station.md', 'policies.md', 'server.md', 'demo.md',
        'evaluators.md', 'episodes.md', 'blind.md', 'ranking.md', 'from_checkpoint.md', 'audit.md',
        'skills.md', 'extending.md'}


def test_no_command_is_left_out_without_a_reason():
    """In a section that a walk goes through, every block of commands is run or left out."""
    known = {block.text for _, blocks in WALKS.values() for block in blocks}
    known |= {text for *_, text in left_out()}
    missed = []
    for page in {page for page, _ in WALKS.values()}:
        for section in re.split(r'^## ', page.read_text(encoding='utf-8'), flags=re.MULTILINE):
            blocks = shell(section)
            if known & set(blocks):
                missed += [(page.name, text) for text in blocks if text not in known]
    assert not missed


def test_a_dialogue_of_a_page_has_every_question_of_a_session():
    dialogues = [block.text for _, blocks in WALKS.values() for block in blocks
                 if block.kind == 'talk']
    asked = [field.question for field in (*asked_at(Asked.SCORE, wanted=Extras().wants),
                                          *asked_at(Asked.JUDGE))]
    assert len(dialogues) > 1
    for text in dialogues:
        assert not [question for question in asked if question not in text]


def test_what_no_walk_runs_is_named_with_the_reason():
    for page, name, reason, text in left_out():
        assert name in WALKS, page
        assert len(reason.split()) > 2, f'{page.name}: {name}'
        sys.stdout.write(f'\nleft out, {page.name}: {reason}\n')
        sys.stdout.writelines(f'    {line}\n' for line in commands(text))
    done = {line for _, blocks in WALKS.values() for block in blocks
            for line in commands(block.text)}
    for page in PAGES:
        lines = {line for text in shell(page.read_text(encoding='utf-8'))
                 for line in commands(text)}
        for line in sorted(lines - done):
            reason = next((why for what, why in ELSEWHERE if re.search(what, line)), '')
            if reason:
                sys.stdout.write(f'needs {reason}, {page.name}: {line}\n')
