"""
Start a station: the simulated one, or the parts that a parameter file describes.

With --session it starts everything that an evaluator needs: the parts, the recorder and the
session node; with --console the evaluator's page too. The same nodes and parameter files as
launch/station.launch.py, without ROS's `launch`. Ctrl-C ends all of them.

    arena station --sim                             the simulated station
    arena station --sim --session --console         everything for sessions, and the page
    arena station --sim --session --console --rerun    and live in Rerun, for engineers
    arena station --example > my_lab.yaml           a station file to edit, with comments
    arena station --adopt my_lab.yaml               the same, proposed from the nodes of
                                                    other packages that run now
    arena station --config my_lab.yaml --session    a lab's station; `arena session` in
                                                    another terminal runs a session
    arena station --config my_lab.yaml              the parts alone, one process per node
    arena station --config my_lab.yaml --emulate    with emulators of the devices it names,
                                                    which have this machine's addresses
    arena station --sim --speed 3 --task lift_cube  three times as fast; publishes /clock
                                                    (with --session too)
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import arena_robot
from arena_robot.cli.station.emulated import emulated
from arena_robot.cli.station.session import add_rerun_argument
from arena_robot.core.errors import ConfigError
from arena_robot.core.files import write_text

if TYPE_CHECKING:
    from arena_robot.nodes.adopt.proposal import Proposal
    from arena_robot.nodes.simulation.governor import SessionPace
    from arena_robot.nodes.station.processes import Startable

SIM_CONFIG, LAB_CONFIG = 'stations/sim.yaml', 'stations/example_lab.yaml'
FIND_S = 120.0    # a station of a slow machine starts all of its nodes
END_S = 20.0      # a recorder finishes its bag


@dataclass(frozen=True)
class PageProcess:
    """The evaluator's page as a process of the station."""

    arguments: tuple[str, ...]
    name: str = 'console'

    def command(self) -> list[str]:
        """Return the command line."""
        return [sys.executable, '-m', 'arena_robot.cli.main', 'console', *self.arguments]


def station_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--config', type=Path, metavar='FILE', help='parameter file of a station')
    parser.add_argument('--example', action='store_true',
                        help='print an example of a station file, with comments, and end')
    parser.add_argument('--rviz', action='store_true',
                        help="print RViz's file for the station, and end")
    parser.add_argument('--foxglove', action='store_true',
                        help="print Foxglove's layout for the station, and end")
    parser.add_argument('--adopt', type=Path, metavar='FILE',
                        help="write a station file for other packages' nodes that run now, say "
                             'what is missing, and end')
    parser.add_argument('--sim', action='store_true',
                        help='the simulated station (the default without --config)')
    parser.add_argument('--namespace', default='', help='namespace of all nodes, such as left')
    parser.add_argument('--speed', type=float, metavar='X',
                        help='simulated per real second, 0 as fast as possible; with /clock')
    parser.add_argument('--task', help='task of the simulated scene')
    parser.add_argument('--seed', type=int, help='variation of the simulated scene')
    parser.add_argument('--robot-type', metavar='ROBOT', help='panda, fr3, or an embodiment')
    parser.add_argument('--fake', action='store_true', help='simulate the parts of the file')
    parser.add_argument('--emulate', action='store_true',
                        help='also start emulators of the devices in the file')
    parser.add_argument('--no-respawn', action='store_true', help='do not restart nodes')
    parser.add_argument('--log-level', default='info', help='of the nodes: debug, info, warn …')
    parser.add_argument('--session', action='store_true',
                        help='start the session node and the recorder too')
    parser.add_argument('--session-config', type=Path, metavar='FILE',
                        help='with --session: their parameters (default: their sections of the '
                             'station file)')
    parser.add_argument('--policies', type=Path, metavar='FILE',
                        help='with --session: YAML file with the pool, without a server')
    parser.add_argument('--data', type=Path, metavar='DIR',
                        help='with --session: where sessions are kept (default: ~/arena)')
    parser.add_argument('--max-steps', type=int, help='with --session: length of a rollout')
    parser.add_argument('--console', action='store_true',
                        help="with --session: serve the evaluator's page too")
    parser.add_argument('--host', help='with --console: address to listen on')
    parser.add_argument('--port', type=int, help='with --console: port of the page')
    add_rerun_argument(parser)


def run_station(args: argparse.Namespace) -> int:
    """Run the station until it is interrupted."""
    from arena_robot.core.config import shipped
    from arena_robot.nodes.lib.spin import stay_local
    from arena_robot.nodes.station.files import nodes_in
    if args.example:
        print(config_file(LAB_CONFIG).read_text(encoding='utf-8'), end='')
        return 0
    if args.adopt:
        return adopt(args.adopt, args.namespace)
    path = shipped(str(args.config)) if args.config else config_file(SIM_CONFIG)
    if not path.is_file():
        raise ConfigError(f'no station file {path}')
    if args.rviz or args.foxglove:
        return print_view(args, path)
    nodes = nodes_in(path, parts_needed=not args.session, namespace=args.namespace)
    if warning := stay_local():
        print(warning, flush=True)
    simulated = [executable for executable, _ in nodes] == ['sim_station']
    check_options(args, path, simulated)
    with emulated(path if args.emulate else None) as devices:
        if args.session:
            return run_with_session(args, path, nodes, simulated, devices)
        shared = ros_arguments(args, path)
        if simulated:
            return run_sim(args, path, shared)
        return supervise([*devices, *parts(args, nodes, shared)], not args.no_respawn)


def print_view(args: argparse.Namespace, path: Path) -> int:
    """Print the file of RViz or Foxglove with the names of the station in ``path``."""
    from arena_robot.core.config import read_yaml
    from arena_robot.nodes.station.files import foxglove_file, names_in, rviz_file
    names = names_in(read_yaml(path), args.namespace)
    print((rviz_file if args.rviz else foxglove_file)(names), end='')
    return 0


def check_options(args: argparse.Namespace, path: Path, simulated: bool) -> None:
    """Raise ConfigError for options that do not go together."""
    if args.sim and not simulated:
        raise ConfigError(f'{path} describes no sim_station; leave out --sim or --config')
    if not simulated and (args.speed is not None or args.task or args.seed is not None):
        raise ConfigError(f'--speed, --task and --seed are for a simulated station, {path} '
                          'describes a real one')
    if args.emulate and (simulated or args.fake):
        raise ConfigError('--emulate is for a station file that names devices; leave it out with '
                          '--sim or --fake')
    if not simulated and args.robot_type:
        raise ConfigError(f'--robot-type is for a simulated station, {path} names its robot')
    for owner, names in (('session', ('session_config', 'policies', 'data', 'max_steps',
                                      'console')), ('console', ('host', 'port', 'rerun'))):
        used = [n for n in names
                if getattr(args, n) is not None and getattr(args, n) is not False]
        if used and not getattr(args, owner):
            raise ConfigError(f"--{used[0].replace('_', '-')} needs --{owner}")


def run_with_session(args: argparse.Namespace, path: Path, nodes: Sequence[tuple[str, str]],
                     simulated: bool, devices: 'Sequence[Startable]' = ()) -> int:
    """Run ``devices``, the parts, recorder, session node and with ``--console`` the page."""
    from arena_robot.nodes.station.processes import (
        SessionOptions,
        namespace_words,
        session_processes,
    )
    for file in (args.session_config, args.policies):
        if file is not None and not file.is_file():
            raise ConfigError(f'no file {file}')
    files = [path, *([args.session_config] if args.session_config else [])]
    pace = pace_of(args)
    options = SessionOptions(args.policies, args.data, args.max_steps, pace=pace,
                             robot_type=args.robot_type)
    words = ('--log-level', args.log_level, *namespace_words(args.namespace))
    with tempfile.TemporaryDirectory(prefix='arena-station-') as folder:
        processes: list[Startable] = [*session_processes(Path(folder), files, options, words,
                                                         simulated, args.namespace)]
        processes[:0] = sim_process(args, files, Path(folder)) if simulated else parts(
            args, nodes, ros_arguments(args, path))
        processes[:0] = devices
        if args.console:
            processes.append(PageProcess(page_words(args)))
        print(f"starting {', '.join(process.name for process in processes)}", flush=True)
        if not args.console:
            where = f' --namespace {args.namespace}' if args.namespace else ''
            print(f'run a session in another terminal: arena session{where}   or open the page: '
                  f'arena console{where}', flush=True)
        return supervise(processes, not args.no_respawn, END_S)


def sim_process(args: argparse.Namespace, files: Sequence[Path],
                folder: Path) -> 'list[Startable]':
    """Return the simulated station as a process; a person's errors when the scene is reset."""
    from arena_robot.nodes.station.processes import (
        AS_A_PERSON,
        NodeProcess,
        start_file,
        write_parameters,
    )
    base = write_parameters(folder / 'sim_base.yaml', {'sim_station': {
        **AS_A_PERSON, 'start_file': start_file(files, args.data)}})
    pace = pace_of(args)
    values = pace.station() if pace else {'sim_station': {}}
    values['sim_station'] |= sim_parameters(args)
    options_file = write_parameters(folder / 'sim_options.yaml', values, args.namespace, files[:1])
    return [NodeProcess('sim_station', 'sim_station', (
        '--params-file', str(base), *ros_arguments(args, files[0]),
        '--params-file', str(options_file)))]


def pace_of(args: argparse.Namespace) -> 'SessionPace | None':
    """Return the pace of sessions in a simulation that is not in real time, else None."""
    from arena_robot.nodes.simulation.governor import SessionPace
    return None if args.speed in (None, 1.0) else SessionPace(args.speed)


def parts(args: argparse.Namespace, nodes: Sequence[tuple[str, str]],
          shared: Sequence[str]) -> 'list[Startable]':
    """Return one process for each part of a real station."""
    from arena_robot.nodes.station.processes import NodeProcess
    fake = ['-p', 'use_fake_hardware:=true'] if args.fake else []
    return [NodeProcess(executable, name, (*shared, *fake)) for executable, name in nodes]


def page_words(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the arguments of `arena console`; it waits for the session node to start."""
    options = {'--namespace': args.namespace or None, '--host': args.host, '--port': args.port,
               '--wait': FIND_S}
    words = tuple(str(word) for name, value in options.items() if value is not None
                  for word in (name, value))
    return words if args.rerun is None else (*words, '--rerun', *filter(None, [args.rerun]))


def run_sim(args: argparse.Namespace, path: Path, shared: list[str]) -> int:
    """Run the composed station until it is interrupted."""
    from arena_robot.nodes.simulation import node as sim_station
    from arena_robot.nodes.station.processes import overrides_file
    overrides = overrides_file({'sim_station': sim_parameters(args)}, args.namespace, [path])
    try:
        return sim_station.main([sys.argv[0], '--ros-args', *shared, '--params-file',
                                 str(overrides)])
    finally:
        overrides.unlink()


def supervise(processes: 'Sequence[Startable]', respawn: bool,
              end_s: float | None = None) -> int:
    """Run the processes until SIGINT or SIGTERM, or SIGHUP: the terminal was closed."""
    from arena_robot.core.process import end_signals
    from arena_robot.nodes.station.processes import INTERRUPT_S, Supervisor
    supervisor = Supervisor(processes, respawn, interrupt_s=end_s or INTERRUPT_S)
    for number in end_signals():
        signal.signal(number, lambda *_: supervisor.stopped.set())
    return supervisor.run()


def ros_arguments(args: argparse.Namespace, path: Path) -> list[str]:
    """Return the ROS arguments that all nodes share."""
    from arena_robot.nodes.station.processes import namespace_words
    return ['--params-file', str(path), '--log-level', args.log_level,
            *namespace_words(args.namespace)]


def sim_parameters(args: argparse.Namespace) -> dict[str, object]:
    """Return the parameters of the simulated station that were given on the line."""
    from arena_robot.nodes.station.processes import own_file
    values = {'real_time_factor': args.speed, 'task': args.task, 'seed': args.seed,
              'robot_type': own_file(args.robot_type)}
    if args.speed is not None and args.speed != 1.0:
        values['publish_clock'] = True
    return {name: value for name, value in values.items() if value is not None}


def config_file(name: str) -> Path:
    """Return a file of config/, of the source tree or of the installed package."""
    source = Path(arena_robot.__file__).parents[1] / 'config' / name
    if source.is_file():
        return source
    for prefix in Path(arena_robot.__file__).parents:
        installed = prefix / 'share' / 'arena_robot' / 'config' / name
        if installed.is_file():
            return installed
    raise ConfigError(f'{name} is not installed; give a station file with --config')


def adopt(path: Path, namespace: str) -> int:
    """Write the station file of a running graph; return 1 while something is missing."""
    from arena_robot.nodes.adopt.graph import look
    from arena_robot.nodes.adopt.proposal import propose
    refuse_or_ask(path)
    print('looking at the graph for some seconds', flush=True)
    proposal = propose(look(namespace), folder=path.parent)
    for name, text in proposal.files.items():
        refuse_or_ask(path.with_name(name))
        write_text(path.with_name(name), text)
    write_text(path, proposal.text(str(path)))
    tell(proposal, path, namespace)
    return 1 if proposal.missing else 0


def refuse_or_ask(path: Path) -> None:
    """Return when ``path`` may be written; ConfigError unless a person says so."""
    if not path.exists():
        return
    if sys.stdin.isatty() and input(f'{path} exists. Replace it? [y/N]: ').strip().lower() == 'y':
        return
    raise ConfigError(f'{path} exists and is not replaced; give another name, or remove it')


def tell(proposal: 'Proposal', path: Path, namespace: str) -> None:
    """Print what was found, what to check, what is missing, and the next command."""
    for title, lines in (('found', proposal.found), ('check', proposal.remarks),
                         ('MISSING', proposal.missing)):
        for line in lines:
            print(f'{title:<8} {line}')
    space = f' --namespace {namespace}' if namespace else ''
    print(f'written: {path}')
    if proposal.missing:
        print('Mend what is missing and look again, or edit the file.')
    else:
        print(f'next: arena station --config {path}{space} --session --console')
