"""
Start a station: the simulated one, or the parts that a parameter file describes.

The same nodes and parameter files as launch/station.launch.py, without ROS's `launch`. Ctrl-C ends
all nodes.

    arena station --sim                          the simulated station
    arena station --sim --speed 3 --task ...     three times as fast; publishes /clock
    arena station --config my_lab.yaml           one process per node, started again if it dies
"""

import argparse
import signal
import sys
from pathlib import Path

from arena_robot.core.errors import ConfigError
from arena_robot.safety.robots import ROBOTS

VERB = 'station'
HELP = 'start the nodes of a station, simulated or real'
SIM_CONFIG = 'stations/sim.yaml'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--config', type=Path, metavar='FILE', help='parameter file of a station')
    parser.add_argument('--sim', action='store_true',
                        help='the simulated station (the default without --config)')
    parser.add_argument('--namespace', default='', help='namespace of all nodes, such as left')
    parser.add_argument('--speed', type=float, metavar='X',
                        help='simulated per real second, 0 as fast as possible; with /clock')
    parser.add_argument('--task', help='task of the simulated scene')
    parser.add_argument('--seed', type=int, help='variation of the simulated scene')
    parser.add_argument('--robot-type', choices=tuple(ROBOTS), help='which Franka')
    parser.add_argument('--fake', action='store_true',
                        help='simulated parts instead of those in the file')
    parser.add_argument('--no-respawn', action='store_true', help='do not restart nodes')
    parser.add_argument('--log-level', default='info', help='of the nodes: debug, info, warn …')


def run(args: argparse.Namespace) -> int:
    """Run the station until it is interrupted."""
    from arena_robot.nodes.supervisor import nodes_in
    path = args.config or default_config()
    if not path.is_file():
        raise ConfigError(f'no station file {path}')
    nodes = nodes_in(path)
    simulated = nodes[0][0] == 'sim_station'
    if args.sim and not simulated:
        raise ConfigError(f'{path} describes no sim_station; leave out --sim or --config')
    shared = ros_arguments(args, path)
    if simulated:
        return run_sim(shared, sim_parameters(args))
    if args.speed is not None or args.task or args.seed is not None:
        raise ConfigError(f'--speed, --task and --seed are for a simulated station, {path} '
                          'describes a real one')
    if args.robot_type:
        raise ConfigError(f'--robot-type is for a simulated station, {path} names its robot')
    if args.fake:
        shared += ['-p', 'use_fake_hardware:=true']
    return supervise(nodes, shared, not args.no_respawn)


def run_sim(shared: list[str], parameters: dict[str, object]) -> int:
    """Run the composed station until it is interrupted."""
    from arena_robot.nodes.simulation import node as sim_station
    from arena_robot.nodes.supervisor import overrides_file
    overrides = overrides_file({'sim_station': parameters})
    try:
        return sim_station.main([sys.argv[0], '--ros-args', *shared, '--params-file',
                                 str(overrides)])
    finally:
        overrides.unlink()


def supervise(nodes: list[tuple[str, str]], shared: list[str], respawn: bool) -> int:
    """Run one process per node until SIGINT or SIGTERM."""
    from arena_robot.nodes.supervisor import NodeProcess, Supervisor
    supervisor = Supervisor([NodeProcess(executable, name, tuple(shared))
                             for executable, name in nodes], respawn)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: supervisor.stopped.set())
    return supervisor.run()


def ros_arguments(args: argparse.Namespace, path: Path) -> list[str]:
    """Return the ROS arguments that all nodes share."""
    out = ['--params-file', str(path), '--log-level', args.log_level]
    if args.namespace:
        out += ['-r', f"__ns:=/{args.namespace.strip('/')}"]
    return out


def sim_parameters(args: argparse.Namespace) -> dict[str, object]:
    """Return the parameters of the simulated station that were given on the line."""
    given = {'real_time_factor': args.speed, 'task': args.task, 'seed': args.seed,
             'robot_type': args.robot_type}
    if args.speed is not None and args.speed != 1.0:
        given['publish_clock'] = True
    return {name: value for name, value in given.items() if value is not None}


def default_config() -> Path:
    """Return config/stations/sim.yaml of the source tree or of the installed package."""
    source = Path(__file__).parents[2] / 'config' / SIM_CONFIG
    if source.is_file():
        return source
    for prefix in Path(__file__).parents:
        installed = prefix / 'share' / 'arena_robot' / 'config' / SIM_CONFIG
        if installed.is_file():
            return installed
    raise ConfigError(f'{SIM_CONFIG} is not installed; give a station file with --config')
