"""First-time walks from the pages alone end with a submitted session; see page_walks.py."""

import json
import os

import pytest
from page_walks import ROOT, Walk, walks

pytest.importorskip('rclpy', reason='ROS 2 is not installed')
pytest.importorskip('arena_msgs', reason='arena_msgs is not built')

WALKS = walks()
SHORT = ('simulation',)
LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='takes minutes with the others: make walks')


def submitted(folder):
    """Return the sessions in a folder that were submitted, and revealed as promised."""
    paths = []
    for path in folder.rglob('session.json'):
        data = json.loads(path.read_text(encoding='utf-8'))
        if data.get('state') == 'done' and data.get('verified'):
            paths.append(path)
    return paths


@pytest.mark.parametrize('name', [name if name in SHORT else pytest.param(name, marks=LONG)
                                  for name in WALKS])
def test_a_first_time_reader_gets_a_session_submitted(name, tmp_path):
    with Walk(tmp_path) as walk:
        for block in WALKS[name][1]:
            walk.do(block)
        assert submitted(tmp_path), walk.report()


def test_there_are_ten_walks_through_the_pages_that_a_newcomer_opens():
    assert len(WALKS) >= 10
    assert {page.name for page, _ in WALKS.values()} >= {
        'README.md', 'first_hour.md', 'station.md', 'policies.md', 'server.md', 'demo.md',
        'evaluators.md', 'episodes.md'}


def test_the_first_hour_has_no_command_of_its_simulation_left_out():
    """What the walk skips is the set-up of the machine, and commands for a person's next step."""
    text = (ROOT / 'docs' / 'first_hour.md').read_text(encoding='utf-8')
    part = text.split('\n## In simulation\n')[1].split('\n## ')[0]
    blocks = part.count('```') // 2
    marked = sum(block.text in part for block in WALKS['simulation'][1])
    assert blocks - marked == 1
