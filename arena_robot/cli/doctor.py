"""
Check whether this machine can run a station, a server and the demonstration.

Prints one line per check: passed, or what is wrong and how to fix it. Exit code 0 when every
check passed, else 1.

    arena doctor
    arena doctor --data /data/arena --ports 50061,8061 --json
    arena doctor --station my_lab.yaml      what its parts need; nothing moves
"""

import argparse
import sys
from pathlib import Path

from arena_robot.cli.terminal import json_text

PORTS = '50061,8061,8600,8000'


def doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--data', type=Path, default=Path(), metavar='DIR',
                        help='where sessions will be kept (default: here)')
    parser.add_argument('--min-free-gb', type=float, default=5.0, metavar='GB',
                        help='disk space that must be free there (default %(default)s)')
    parser.add_argument('--ports', default=PORTS, metavar='N,N,…',
                        help='ports that must be free: server, site, console, policy '
                             '(default %(default)s)')
    parser.add_argument('--station', type=Path, metavar='FILE',
                        help='check the parts of this station file too; while no station runs')


def run_doctor(args: argparse.Namespace) -> int:
    """Run every check; return 1 when one failed."""
    from arena_robot.cli.doctor_checks import all_checks
    from arena_robot.core.errors import ConfigError
    from arena_robot.core.terminal import colours
    try:
        ports = [int(word) for word in args.ports.split(',') if word]
    except ValueError as error:
        raise ConfigError(f"--ports '{args.ports}' is not a list of numbers") from error
    findings = all_checks(args.data.expanduser(), args.min_free_gb, ports)
    if args.station:
        from arena_robot.cli.doctor_station import station_checks
        findings += station_checks(args.station)
    if args.json:
        print(json_text([vars(finding) for finding in findings]))
    else:
        colour = colours(sys.stdout)
        for finding in findings:
            mark = ('\033[32m✓\033[0m' if finding.ok else '\033[31m✗\033[0m') if colour else \
                ('ok  ' if finding.ok else 'FAIL')
            print(f'{mark} {finding.name:<18} {finding.found}')
            if not finding.ok:
                print(f"{' ' * (2 if colour else 5)}{'':<18} → {finding.advice}")
        wrong = sum(not finding.ok for finding in findings)
        print('\nevery check passed' if not wrong else
              f"\n{wrong} check{'s' if wrong > 1 else ''} failed")
    return 0 if all(finding.ok for finding in findings) else 1
