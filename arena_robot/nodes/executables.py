"""
The executables of `ros2 run arena_robot ...`, one per node, and the modules they run.

`python -m arena_robot.nodes.executables arm_node --ros-args ...` is the same without ROS's tools.
`part_nodes arm_node gripper_node left_camera --ros-args ...` runs parts that share a robot.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from itertools import takewhile
from pathlib import Path

MODULES = {
    'arm_node': 'arena_robot.nodes.arm.node',
    'audit_node': 'arena_robot.nodes.audit',
    'camera_node': 'arena_robot.nodes.camera',
    'gripper_node': 'arena_robot.nodes.gripper',
    'ranking_node': 'arena_robot.nodes.ranking',
    'recorder_node': 'arena_robot.nodes.recorder.node',
    'replay_node': 'arena_robot.nodes.replay',
    'session_node': 'arena_robot.nodes.session.node',
    'sim_station': 'arena_robot.nodes.simulation.node',
}
# The program that runs several nodes of parts in one process, named by its first arguments.
PARTS = 'part_nodes'
# Nodes that need more than the extra of a lab's station.
EXTRAS = {'ranking_node': 'server', 'sim_station': 'sim'}
ROS = ('rclpy', 'arena_msgs', 'tf2_msgs', 'rcl_interfaces', 'ament_index_python')


def main() -> int:
    """Run the node that this program is named after; say what to install where it cannot be."""
    if Path(sys.argv[0]).stem == Path(__file__).stem:
        del sys.argv[0]
    name = Path(sys.argv[0]).name
    try:
        run: Callable[[], int] = part_nodes() if name == PARTS else import_module(
            MODULES[name]).main
    except ImportError as error:
        package = (error.name or '').partition('.')[0]
        if package == 'arena_robot':
            raise
        how = ("source ROS 2's setup.bash and your workspace's" if package in ROS else
               "in the folder of arena_robot: pip install --constraint requirements-station.txt "
               f"'.[{EXTRAS.get(name, 'lab')}]'")
        sys.stderr.write(f'{name} needs a package: {error}; {how}\n')
        return 2    # as for bad configuration: starting it again would not help
    except KeyboardInterrupt:
        return 130    # Ctrl-C while it imports
    return int(run())


def part_nodes() -> Callable[[], int]:
    """Return what runs the nodes that the command line names, in one process."""
    from arena_robot.nodes.arm.node import ArmNode
    from arena_robot.nodes.camera import CameraNode
    from arena_robot.nodes.gripper import GripperNode
    from arena_robot.nodes.lib.spin import Spin, run_with
    kinds = {'arm_node': ArmNode, 'gripper_node': GripperNode}

    def build(spin: Spin) -> None:
        for name in takewhile(lambda word: not word.startswith('-'), sys.argv[1:]):
            spin.add(kinds.get(name, CameraNode)(name, context=spin.context),
                     threads=4 if name in kinds else 1)
    return lambda: run_with(build, sys.argv)


if __name__ == '__main__':
    sys.exit(main())
