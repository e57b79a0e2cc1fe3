"""The pages say what the code declares and offers."""

import re

import pytest
from rclpy.node import NodeNameNonExistentError
from station_programs import ROOT
from waiting import until

from arena_robot.nodes.describe import PAGES, updated
from arena_robot.nodes.executables import MODULES

PAGE = ROOT / 'docs' / 'station.md'
TEXT = PAGE.read_text(encoding='utf-8')
NODES = ('arm_node', 'gripper_node', 'left_camera', 'sim_station')
TYPE = re.compile(r'[a-z0-9_]+_msgs/\w+$|(std_srvs|arena_msgs)/srv/\w+$')
STANDARD = re.compile(r'parameter|/rosout|transition|/(get|change)_(available_)?state|'
                      r'get_type_description|/_action/')


def documented():
    """Return types by name of all topics and services in the tables."""
    found = {}
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if len(cells) >= 2 and TYPE.match(cells[1]):
            found |= dict.fromkeys(re.findall(r'`([^`]+)`', cells[0]), cells[1])
    return found


def offered(client, namespace):
    """Return types by name of all topics and services of the station's nodes."""
    found = {}
    for node in NODES:
        for ask in (client.get_publisher_names_and_types_by_node,
                    client.get_subscriber_names_and_types_by_node,
                    client.get_service_names_and_types_by_node):
            try:
                found |= {name.removeprefix(f'/{namespace}/'): kinds[0].replace('/msg/', '/')
                          for name, kinds in ask(node, f'/{namespace}')}
            except NodeNameNonExistentError:
                return {}
    return {name: kind for name, kind in found.items() if not STANDARD.search(name)}


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


def test_names_in_the_page_are_those_of_a_running_station(client, arm_session,
                                                          station_namespace):
    said = documented()
    said.pop('/clock')
    until(lambda: offered(client, station_namespace) == said,
          lambda: (offered(client, station_namespace), said))
