"""The pages say what the code declares and offers."""

import re

import pytest
from station_programs import ROOT

from arena_robot.nodes.describe import PAGES, updated
from arena_robot.nodes.executables import MODULES

PAGE = ROOT / 'docs' / 'station.md'
TEXT = PAGE.read_text(encoding='utf-8')
@pytest.mark.parametrize('page', PAGES)
def test_parameter_tables_are_those_of_the_code(page):
    text = (ROOT / 'docs' / page).read_text(encoding='utf-8')
    assert updated(text, PAGES[page]) == text, 'run: python -m arena_robot.nodes.describe docs'


@pytest.mark.parametrize('node', ['arm_node', 'gripper_node', 'camera_node'])
def test_rates_in_a_nodes_table_are_parameters_of_that_node(node):
    """Outside its parameter table too: each table of topics stands in the section of its node."""
    part = TEXT.split(f'\n## {node}\n')[1].split('\n## ')[0]
    declared = re.findall(r'^\| `(\w+)` \|', part.split('<!-- parameters of')[1], re.MULTILINE)
    topics = part.split('<!-- parameters of')[0]
    rows = [line.strip('|').split('|')[2] for line in topics.splitlines()
            if line.startswith('|') and '`' in line]
    said = {word for row in rows for word in re.findall(r'`(\w+_rate)`', row)}
    assert said <= set(declared)


def test_every_node_has_a_table():
    described = {name for tables in PAGES.values() for name in tables}
    assert described >= set(MODULES)
