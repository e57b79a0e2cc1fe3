"""Namesakes in one domain are noticed and refused; the many nodes of a machine find each other."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack

import pytest
import waiting
from rclpy.node import Node
from session_rig import Rig, until

from arena_robot.core.errors import SessionError
from arena_robot.nodes.lib.spin import RANGE, SAID, Spin
from arena_robot.nodes.session.connections import CHECK, Namesakes
from arena_robot.session.evaluator.desk import Button

# With ROS's own 32 ports, the 34th and the 35th never meet. The process ends without closing them:
# Fast DDS 2.14 can wait for ever where a participant is closed while it hears of another's writer.
PARTICIPANTS = """
import os, time
from rclpy.node import Node
from arena_robot.nodes.lib.spin import Spin

end_s = time.monotonic() + 60
nodes = [Node(f'one_{os.getpid()}_{i}', context=Spin().__enter__().context) for i in range(35)]
first, second = nodes[-2:]
seen = False
while not seen and time.monotonic() < end_s:
    seen = second.get_name() in first.get_node_names() and first.get_name() in (
        second.get_node_names())
    time.sleep(0.01)
print(seen, flush=True)
os._exit(0)
"""


def checked(desk, ok):
    """Check the station until the check of its names says ``ok``."""
    def is_checked(state):
        check = next((check for check in state.checks if check.name == CHECK), None)
        if check is None or check.ok is not ok:
            desk.press(Button.CHECK)
            return False
        return True
    return next(c for c in until(desk, is_checked, 'two stations', 60.0).checks if c.name == CHECK)


def test_a_second_station_under_the_same_names_is_refused(processes, tmp_path):
    with Rig(processes, tmp_path, record=False) as rig, rig.desk() as desk:
        desk.take('tester')
        checked(desk, True)
        other = tmp_path / 'other.yaml'
        other.write_text(f'/**/session_node:\n  ros__parameters:\n    data_dir: {tmp_path}/b\n')
        second = processes(*rig.commands['session_node'], '--params-file', str(other),
                           **rig.environment)
        said = checked(desk, False)
        # Which of the two says it of the other is left to chance: both have one name.
        assert re.search(r'session_node runs as process \d+ on', said.detail)
        with pytest.raises(SessionError, match='two stations would be mixed'):
            desk.open_session('ada', 'put the cube in the bowl')
        second.kill()
        # A killed one is not taken for a second station for longer than its last word lasts.
        checked(desk, True)


def test_session_nodes_of_one_name_hear_each_other_and_those_of_two_do_not():
    with ExitStack() as stack:
        namesakes = []
        for space in ('left', 'left', 'right'):
            spin = stack.enter_context(Spin([]))
            node = Node('session_node', namespace=space, context=spin.context)
            namesakes.append(Namesakes(node, ['arm_node']))
            spin.add(node)

        def seen():
            for each in namesakes:
                each.look()
            return [each.check().ok for each in namesakes]
        waiting.until(lambda: seen() == [False, False, True],
                      lambda: [each.check() for each in namesakes])


@pytest.mark.parametrize(('given', 'heard'), [
    ({}, 'LOCALHOST'), ({RANGE: 'SUBNET'}, 'SUBNET'), ({'ROS_STATIC_PEERS': '10.0.0.2'}, None)])
def test_ros_hears_this_machine_only_unless_the_environment_says_otherwise(given, heard):
    code = ('import os; from arena_robot.nodes.lib.spin import stay_local; '
            f'print(repr(stay_local()), os.environ.get({RANGE!r}), repr(stay_local()))')
    environment = {k: v for k, v in os.environ.items() if k != RANGE and k[:4] != 'ROS_'}
    done = subprocess.run([sys.executable, '-c', code], env={**environment, **given},
                          capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == f"{SAID if not given else ''!r} {heard} ''"


def test_the_last_of_many_participants_find_each_other():
    done = subprocess.run([sys.executable, '-c', PARTICIPANTS], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.stdout.split() == ['True'], done.stderr
