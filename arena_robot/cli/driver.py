"""
Check that a driver does what the station expects of its kind of part, on hardware too.

BACKEND is sim, replay, franka_rs or libfranka (an arm), robotiq (a gripper), droid_nuc (an arm
or a gripper), zed (a camera), a name that an installed package adds, or module:Class. First
come the checks that move nothing. Those that send commands move an arm's flange and a
gripper's fingers a little: they run only after the word MOVE is typed, or with --yes;
--dry-run shows what they would send, from where the part is now, and sends nothing. Exit code
0 only when every check held; 1 when one failed or the moving part was not run. Ctrl-C stops
the part, which then holds.

  arena driver check camera my_lab.zed:ZedCamera --param serial_number=4711
  arena driver check arm sim --yes
  arena driver check arm franka_rs --param robot_ip=172.16.0.2 --dry-run
  arena driver check gripper replay --param folder=data/sessions/ID/A --yes --json
"""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    from arena_robot.core.conformance import Result
    from arena_robot.drivers.conformance.rig import AnyRig

WORD = 'MOVE'
INTERRUPTED = 130


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('part', choices=('arm', 'gripper', 'camera'))
    parser.add_argument('backend', metavar='BACKEND', help='name, or module:Class')
    parser.add_argument('--param', metavar='KEY=VALUE', action='append', default=[],
                        help="argument of the driver's constructor, read as YAML")
    parser.add_argument('--yes', action='store_true',
                        help='run what moves without asking; keep the area clear')
    parser.add_argument('--dry-run', action='store_true',
                        help="read the part's state and show what would be sent; nothing is")


def run_check(args: argparse.Namespace) -> int:
    """Check, print every result as it comes, return 0 or 1."""
    from arena_robot.core.conformance import ConformanceReport
    from arena_robot.drivers.conformance.suite import driver_rig
    from arena_robot.policy.connect import parse_kwargs

    if args.dry_run:
        return _shown(args)
    results: list[Result] = []

    def show(result: 'Result') -> None:
        results.append(result)
        if not args.json:
            print(result.text(), flush=True)

    if not args.json:
        print(f'{args.part} {args.backend}', flush=True)
    ended = ''
    try:
        with driver_rig(args.part, args.backend, parse_kwargs(args.param)) as rig:
            ended = _checked(args, rig, show)
    except KeyboardInterrupt:
        ended = f'interrupted; the {args.part} was stopped and closed'
    report = ConformanceReport(f'{args.part} {args.backend}', tuple(results))
    passed = report.passed and not ended
    if args.json:
        print(json_text({**report.as_dict(), 'passed': passed, 'ended': ended}))
    else:
        print('\n'.join(line for line in (report.counts(), ended) if line))
    return 0 if passed else INTERRUPTED if ended.startswith('interrupted') else 1


def _shown(args: argparse.Namespace) -> int:
    """Print what the moving checks would send."""
    from arena_robot.drivers.conformance import suite
    from arena_robot.drivers.conformance.suite import driver_rig
    from arena_robot.policy.connect import parse_kwargs

    checks = suite.SUITES[args.part].moving
    with driver_rig(args.part, args.backend, parse_kwargs(args.param)) as rig:
        planned = suite.would_send(checks, rig) if checks else []
    if args.json:
        print(json_text({'dry_run': dict(planned)}))
        return 0
    print(f'{args.part} {args.backend}: nothing is sent; the checks that move would send')
    for name, lines in planned:
        print('\n'.join((f'  {name}', *(f'    {line}' for line in lines))))
    return 0


def _checked(args: argparse.Namespace, rig: 'AnyRig', show: 'Callable[[Result], None]') -> str:
    """Run the checks; return why not all of them were run, '' when they were."""
    from arena_robot.core.conformance import FAIL
    from arena_robot.drivers.conformance import suite

    checks = suite.SUITES[args.part]
    still = suite.run_still(checks, rig, show)
    if not checks.moving:
        return ''
    why = ('a check that moves nothing failed' if any(r.outcome == FAIL for r in still)
           else '' if args.yes else _asked(checks.warning))
    if why:
        suite.leave_out(checks.moving, why, show)
        return f'the checks that move the {args.part} were not run: {why}'
    suite.run_moving(checks, rig, show)
    return ''


def _asked(warning: str) -> str:
    """Ask before anything moves; return why not, '' when the answer is the word."""
    if not sys.stdin.isatty():
        return 'nobody can be asked without a terminal; add --yes'
    print(f'Next, {warning}.\nType {WORD} to go on: ', end='', file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip()
    return '' if answer == WORD else f'{WORD} was not typed'
