"""
Check a server's leaderboard offline, from its log.

    curl -o log.json https://arena.example.org/api/log
    arena verify log.json --key 3f2a... --head head_of_march.json
    arena verify log.json --receipts ~/arena/sessions

The log holds every session that counts. Its hashes, signed head, commitments, reveals and the
standings are computed anew. Heads that were saved before (`/api/log/head`) and the sessions of a
station show that nothing was removed or changed since: its receipts, its own record of each
verdict, and what the server signed when it gave the pair and when it took the verdict.
"""

import argparse
import json
from pathlib import Path
from typing import Any

VERB = 'verify'
HELP = "check a server's leaderboard offline, from its log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('log', type=Path, metavar='FILE', help='what /api/log of the site returns')
    parser.add_argument('--key', default='', metavar='HEX', help="the server's public key")
    parser.add_argument('--head', type=Path, action='append', default=[], metavar='FILE',
                        help='a head saved before, JSON; can be repeated')
    parser.add_argument('--receipts', type=Path, metavar='DIR',
                        help="the folder of a station's sessions: receipts, records, promises")


def run(args: argparse.Namespace) -> int:
    """Check, and print what is proven."""
    from arena_robot.core.iso_time import to_iso
    from arena_robot.records.session_file import RECEIPT_FILE, read_session, session_paths
    from arena_robot.server.transparency.verify import check_bundle
    receipts = sorted(args.receipts.glob(f'*/{RECEIPT_FILE}')) if args.receipts else []
    found = check_bundle(_read(args.log), args.key, [_read(path) for path in args.head],
                         [_read(path) for path in receipts],
                         [read_session(path.parent) for path in session_paths(args.receipts)]
                         if args.receipts else [])
    print(f'{found.head.size} entries, {len(found.comparisons)} comparisons count, '
          f'{found.withdrawn} withdrawn'
          + (f', files of {found.erased} deleted' if found.erased else ''))
    for origin, number in sorted(found.origins.items()):
        print(f'  {number} {origin}')
    print(f'root {found.head.root}\nkey  {found.head.key}'
          + ('' if args.key else '   (not compared with a key known from elsewhere)'))
    print(f'scores and counts of the standings ({found.method}) follow from the log'
          if found.method else 'there are no standings to check: no two policies can be compared')
    for session, time_ns in found.omitted:
        print(f'session {session} is not in the log, and the server signed at {to_iso(time_ns)} '
              'that it took a valid verdict of it; its notice at the station says why it does not '
              'count')
    for session in found.late_probation:
        print(f'session {session} is left out as one of a policy on probation, and both of its '
              'policies had counted before')
    print(f'nothing was removed since {found.heads} saved heads and {found.receipts} receipts')
    return 0


def _read(path: Path) -> dict[str, Any]:
    from arena_robot.core.errors import DataError
    try:
        values = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} cannot be read: {error}') from error
    if not isinstance(values, dict):
        raise DataError(f'{path} holds no JSON object')
    return values
