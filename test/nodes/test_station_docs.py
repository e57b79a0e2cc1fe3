"""The pages say what the code declares and offers."""

import re
from difflib import get_close_matches

import pytest
from station_programs import ROOT
from test_docs_site import module

from arena_robot.drivers.table import DRIVERS, arguments
from arena_robot.nodes.executables import MODULES

PAGES = module('reference_pages').PAGES
PAGE = ROOT / 'docs' / 'station.md'
TEXT = PAGE.read_text(encoding='utf-8')
DOCS = {path.stem: path.read_text(encoding='utf-8') for path in (ROOT / 'docs').glob('*.md')}
MESSAGES = {path.name: path.read_text(encoding='utf-8')
            for folder in ('msg', 'srv', 'action')
            for path in (ROOT / 'arena_msgs' / folder).glob(f'*.{folder}')}
MEANINGS = {param.name: param.meaning.description
            for tables in PAGES.values() for params in tables.values() for param in params}
# What a text says of a parameter, and a word that the parameter's own meaning then has.
SAID = ((r'older than `?(\w+_\w+)', 'age'), (r'no command for `?(\w+_\w+)', 'without'),
        (r'soon after `?(\w+_\w+)', 'without'))


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


def names_in(page):
    """Return the names with an underscore that a page has between backticks."""
    text = re.sub(r'```.*?```', '', DOCS[page], flags=re.DOTALL)
    return {name for code in re.findall(r'`([^`\n]+)`', text)
            for name in re.findall(r'(?<![\w$])[a-z]\w*_\w+', code)}


@pytest.fixture(scope='module')
def words():
    """Return every word of the code and its messages, and the names of the checks' files."""
    kinds = {'.py', '.yaml', '.js', '.html', '.xml', '.proto', '.msg', '.srv', '.action'}
    texts = [path.read_text(encoding='utf-8') for folder in ('arena_robot', 'launch', 'config',
                                                             'arena_msgs')
             for path in (ROOT / folder).rglob('*') if path.suffix in kinds]
    return {word for text in texts for word in re.findall(r'\w+', text)} | {
        path.stem for folder in ('test', 'bench') for path in (ROOT / folder).rglob('*.py')}


@pytest.mark.parametrize('page', DOCS)
def test_a_name_like_a_parameters_is_in_the_code(page, words):
    """A parameter's old or misspelt name; names of other packages are like none."""
    wrong = {name: get_close_matches(name, MEANINGS, 1, 0.75) for name in names_in(page) - words}
    assert {name: near for name, near in wrong.items() if near} == {}


@pytest.mark.parametrize('name', [*DOCS, *MESSAGES])
def test_a_parameter_said_to_be_an_age_or_a_timeout_is_one(name):
    for pattern, word in SAID:
        for said in re.findall(pattern, {**DOCS, **MESSAGES}[name]):
            assert word in MEANINGS[said], f'{name}: {said} is: {MEANINGS[said]}'


def test_the_drivers_parameters_in_the_pages_are_arguments_of_a_driver():
    known = {argument.name for part, table in DRIVERS.items() for backend in table.rows()
             for argument in arguments(table.find(backend))}
    said = {name for text in DOCS.values() for name in re.findall(r'`driver\.(\w+)`', text)}
    assert said
    assert said <= known
