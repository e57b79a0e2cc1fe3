"""Verbs of a maintainer: accounts, stations, tokens, policies, texts, files of a server."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.arguments import add_place, add_server_arguments, calls, config_at
from arena_robot.cli.policy.submit import policy_values, review_lines
from arena_robot.cli.terminal import ProgressBar, json_text, sentences
from arena_robot.core.errors import DataError

if TYPE_CHECKING:
    from arena_robot.server.config import ServerConfig
    from arena_robot.server.store.database import Database
    from arena_robot.server.upkeep.backup import Backup


def account_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name')
    parser.add_argument('--institution', required=True)
    parser.add_argument('--role', action='append', required=True, dest='roles',
                        choices=('evaluator', 'owner', 'maintainer'))
    parser.add_argument('--person', default='', metavar='NAME',
                        help='who holds it, the same in all accounts of one person')
    add_server_arguments(parser)


def run_account(args: argparse.Namespace) -> int:
    """
    Add an account and print its token, once.

        arena admin account ada --institution NYU --role evaluator
        arena admin account olga --institution NYU --role owner --role evaluator
    """
    from arena_robot.server.proto import arena_server_pb2 as pb
    reply = calls(args)('AddAccount', pb.Account(
        name=args.name, institution=args.institution, roles=args.roles,
        person=args.person))
    _print_token(args, reply.token)
    return 0


def station_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name')
    parser.add_argument('--institution', required=True, help='its evaluators belong to it too')
    parser.add_argument('--robot', metavar='ARM', default='fr3',
                        help='panda, fr3, an embodiment of `arena embodiment list`, or its YAML '
                             'file (%(default)s)')
    parser.add_argument('--external-cameras', type=int, choices=(0, 1, 2), default=2)
    parser.add_argument('--no-wrist-camera', action='store_true')
    parser.add_argument('--no-stereo', action='store_true')
    parser.add_argument('--depth', action='store_true',
                        help='each camera measures depth, and its session uses it')
    parser.add_argument('--test-driver', action='store_true',
                        help='also assign policies on probation to this station')
    add_server_arguments(parser)


def run_station(args: argparse.Namespace) -> int:
    """
    Add a station and print its token, once.

        arena admin station nyu-1 --institution NYU --robot fr3
    """
    from arena_robot.safety.limits import robot_of
    from arena_robot.server.proto import arena_server_pb2 as pb
    reply = calls(args)('AddStation', pb.Station(
        name=args.name, institution=args.institution, robot=robot_of(args.robot).name,
        external_cameras=args.external_cameras, wrist_camera=not args.no_wrist_camera,
        stereo=not args.no_stereo, depth=args.depth, test_driver=args.test_driver))
    _print_token(args, reply.token)
    return 0


def accounts_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_server_arguments(parser)


def run_accounts(args: argparse.Namespace) -> int:
    """
    List the accounts of people: name, institution, roles, who holds it.

        arena admin accounts
        arena admin accounts --json
    """
    return _print_rows(args, 'accounts', ('account', 'institution', 'roles', 'person'))


def stations_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_server_arguments(parser)


def run_stations(args: argparse.Namespace) -> int:
    """
    List the stations: name, institution, robot, sessions of seven days, when each was last heard.

        arena admin stations
        arena admin stations --json
    """
    return _print_rows(args, 'stations', ('station', 'institution', 'robot', 'week', 'seen'))


def _print_rows(args: argparse.Namespace, part: str, columns: tuple[str, ...]) -> int:
    from arena_robot.server.proto import arena_server_pb2 as pb
    rows = json.loads(calls(args)('Overview', pb.Empty()).json)[part]
    lines = [columns, *([str(row[name]) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(json_text(rows) if args.json else '\n'.join('  '.join(
        f'{word:{width}}' for word, width in zip(line, widths, strict=True)).rstrip()
        for line in lines))
    return 0


def token_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name', help='an account, or with --station a station')
    parser.add_argument('--station', action='store_true')
    parser.add_argument('--revoke', action='store_true', help='make no new token')
    parser.add_argument('--days', type=float, default=0.0,
                        help='validity of the new token (default: 365)')
    add_server_arguments(parser)


def run_token(args: argparse.Namespace) -> int:
    """
    Replace or revoke the tokens of an account or station.

        arena admin token ada                  revokes all tokens, prints a new one
        arena admin token nyu-1 --station --days 90
        arena admin token ada --revoke
    """
    from arena_robot.server.proto import arena_server_pb2 as pb
    request = pb.HolderRequest(name=args.name, station=args.station,
                               lifetime_s=args.days * 86400.0)
    if args.revoke:
        calls(args)('RevokeTokens', request)
        print(json_text({'name': args.name, 'revoked': True}) if args.json else
              f'every token of {args.name} is revoked')
    else:
        _print_token(args, calls(args)('RotateToken', request).token)
    return 0


def _print_token(args: argparse.Namespace, token: str) -> None:
    print(json_text({'name': args.name, 'token': token}) if args.json else token)


def policy_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name')
    parser.add_argument('--approve', action='store_true', help='it may enter the pool')
    parser.add_argument('--clear-unsafe', metavar='WHY', default='',
                        help='its reports do not stand; it is checked and tested again')
    parser.add_argument('--suspend', metavar='WHY', default='',
                        help='it is assigned no longer; only a maintainer has it checked again, '
                             'with arena policy submit NAME --resubmit')
    add_server_arguments(parser)


def run_policy(args: argparse.Namespace) -> int:
    """
    Decide about a policy: let it enter the pool, suspend it, or clear the reports on it.

        arena admin policy pi0-droid --approve
        arena admin policy pi0-droid --clear-unsafe 'the table was too high'
        arena admin policy pi0-droid --suspend 'it runs into the table'

    `arena policy mine` with a maintainer's token lists all policies, reports and appeals.
    Decisions are in the audit log.
    """
    from arena_robot.server.proto import arena_server_pb2 as pb
    policy = calls(args)('DecidePolicy', pb.DecideRequest(
        name=args.name, approve=args.approve, clear_why=args.clear_unsafe,
        suspend_why=args.suspend))
    lines = [f'{policy.name}: {policy.state}', *(f'    {line}' for line in review_lines(policy))]
    print(json_text(policy_values(policy)) if args.json else '\n'.join(lines))
    return 0


def status_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_place(parser)


def run_status(args: argparse.Namespace) -> int:
    """
    Say on the server's own machine what its maintainer should know today.

        arena admin status --config /etc/arena/server.yaml
        arena admin status --data arena-data

    Sessions that wait for something, policies that wait for a person or do not answer, when each
    station was last heard, tokens that end within 30 days, the disk.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.store.overview import overview

    config = config_at(args)
    with _database(config) as database, database.read() as connection:
        now = overview(connection, config.data, SystemClock().now_ns(), config.approve_policies)
    print(json_text(dataclasses.asdict(now)) if args.json else now.text())
    return 0


def _database(config: 'ServerConfig') -> 'Database':
    from arena_robot.server.store.database import Database
    from arena_robot.server.store.snapshot import require_database
    require_database(config.database_url())
    return Database(config.database_url())


def rescue_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name', help='a maintainer; made when there is no account of that name')
    add_place(parser)


def run_rescue(args: argparse.Namespace) -> int:
    """
    Make a maintainer's token on the server's own machine, when nobody has one any more.

    It opens the database itself, so it needs no token and no running server:

        arena admin rescue maya --config /etc/arena/server.yaml
        arena admin rescue maya --data arena-data
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.store.accounts import rescue_token

    config = config_at(args)
    with _database(config) as database:
        _print_token(args, rescue_token(database, SystemClock(), args.name))
    return 0


def backup_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('folder', type=Path, metavar='DIR', help='folder of the backup')
    add_place(parser)


def run_backup(args: argparse.Namespace) -> int:
    """
    Back up a server on its own machine; it may run meanwhile.

        arena admin backup /backups/arena --config /etc/arena/server.yaml
        arena admin backup /backups/arena --data arena-data

    The folder gets a snapshot of the database, the keys of the data folder and all uploaded files.
    Repeated with the same folder, it copies only files that are new. `arena admin restore` puts it
    back and checks it. See docs/operations.md.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.upkeep.backup import back_up

    config = config_at(args)
    backup = back_up(config, args.folder, SystemClock())
    _print_backup(args, backup, str(args.folder))
    return 0


def _print_backup(args: argparse.Namespace, backup: 'Backup', where: str,
                  checked: str = '') -> None:
    text = (f'{where}: {backup.sessions} sessions, {backup.files} files, '
            f'{backup.bytes / 1e6:.1f} MB, schema {backup.schema}{checked}')
    note = f'\nnote: {backup.unchecked}' if backup.unchecked else ''
    print(json_text({'folder': where, **dataclasses.asdict(backup)}) if args.json else text + note)


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('folder', type=Path, metavar='DIR', help='folder of the backup')
    add_place(parser)


def run_restore(args: argparse.Namespace) -> int:
    """
    Restore a backup into an empty place, and check what came back.

        arena admin restore /backups/arena --config /etc/arena/server.yaml
        arena admin restore /backups/arena --data arena-data

    Nothing is overwritten: the data folder and the database must be empty. The files of the backup
    are compared with its SHA-256 sums before, the ledger, the log and the uploaded files are
    checked afterwards. Then the server can be started. See docs/operations.md.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.upkeep.backup import restore

    config = config_at(args)
    backup = restore(config, args.folder, SystemClock())
    _print_backup(args, backup, str(config.data), '; ledger, log and files are whole')
    return 0


def hide_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('session', help='the id of the session')
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument('--reason', default='', help='why; maintainers read it')
    how.add_argument('--undo', action='store_true', help='show the texts again')
    parser.add_argument('--by', required=True, metavar='NAME', help='who hides, for the log')
    add_place(parser)


def run_hide(args: argparse.Namespace) -> int:
    """
    Hide what people typed in a session from pages and downloads, on the server's own machine.

        arena admin hide SESSION --reason 'it names a person' --by ada --data arena-data
        arena admin hide SESSION --undo --by ada

    Instruction, explanation, notes and tags are hidden; the session goes on counting. The log,
    which never changes, keeps them.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.store.audit import Audit
    from arena_robot.server.store.sessions import hide_texts

    if not args.undo and not args.reason.strip():
        raise DataError('--reason says why the texts are hidden')
    with _database(config_at(args)) as database:
        hide_texts(database, args.session, args.by, args.reason)
        Audit(database, SystemClock()).write(
            f'local:{args.by}', 'show texts' if args.undo else 'hide texts', args.session, 'ok',
            args.reason)
    print(json_text({'session': args.session, 'hidden': not args.undo}) if args.json else
          f"the texts of session {args.session} are {'shown' if args.undo else 'hidden'}")
    return 0


def release_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('name', help='its month, such as 2026-11; 2026-11b for another in it')
    parser.add_argument('--doi', default='', help='reserved for it before; it is in the citation')
    parser.add_argument('--by', required=True, metavar='NAME', help='who freezes, for the log')
    add_place(parser)


def run_release(args: argparse.Namespace) -> int:
    """
    Freeze the results of today for citations, on the server's own machine, for good.

        arena admin release 2026-11 --doi 10.5281/zenodo.123 --by ada --data arena-data

    The site shows the release at /data/2026-11 with its files: the log, the standings, the results
    of each task, the methods so far, and the table of sessions. The log gets their hashes. A
    release cannot be changed or removed, so hide texts that name a person before.
    `arena results verify log.json --release release.json` checks one.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.store.audit import Audit
    from arena_robot.server.store.snapshot import require_database
    from arena_robot.web.site.downloads import ReleaseFreezer
    from arena_robot.web.site.server_jobs import opened

    config, clock = config_at(args), SystemClock()
    require_database(config.database_url())
    with opened(config) as (database, blobs):
        entry = ReleaseFreezer(database, blobs, config.data, clock).freeze(
            args.name, args.doi, args.by)
        Audit(database, clock).write(f'local:{args.by}', 'release', args.name, 'ok', args.doi)
    lines = [f"release {args.name} has {entry['size']} entries of the log; /data/{args.name}",
             *(f"{file['sha256']}  {name}" for name, file in entry['files'].items())]
    print(json_text(entry) if args.json else '\n'.join(lines))
    return 0


def erase_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('session', help='the id of the session')
    parser.add_argument('--slot', default='', choices=['A', 'B', '-'],
                        help="one slot, or - for the session's own files (default: all)")
    parser.add_argument('--reason', required=True, help='why; it is public')
    parser.add_argument('--by', required=True, metavar='NAME', help='who deletes, for the log')
    add_place(parser)


def run_erase(args: argparse.Namespace) -> int:
    """
    Delete the files of a session on the server's own machine; the log keeps their hashes.

    Somebody who is in the pictures may ask for it. The session goes on counting. Its page and the
    log say that files were deleted, when and why; the reason is public, so it names nobody:

        arena admin erase SESSION --reason 'a person in the pictures asked for it' --by ada
        arena admin erase SESSION --slot B --reason 'a face is seen' --by ada --data arena-data

    A backup that was made before still has the files: make a new one, and delete the old.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.upkeep.erasing import eraser_of

    config = config_at(args)
    with _database(config) as database:
        count = eraser_of(config, database, SystemClock()).erase(
            args.session, args.slot, args.reason, args.by)
    print(json_text({'session': args.session, 'deleted': count}) if args.json else
          f'deleted {count} files of session {args.session}; make a backup, and delete older ones')
    return 0


def blur_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('session', help='the id of the session')
    parser.add_argument('slot', choices=['A', 'B'])
    parser.add_argument('camera', help='the camera of the video, such as left')
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument('--box', type=int, nargs=4, action='append', default=[], dest='boxes',
                      metavar=('X0', 'Y0', 'X1', 'Y1'), help='left, top, right and bottom in '
                      'pixels of the video; can be repeated')
    what.add_argument('--whole', action='store_true', help='the whole picture')
    parser.add_argument('--from', type=float, default=0.0, dest='from_s', metavar='S',
                        help='second at which it begins (default: the first)')
    parser.add_argument('--to', type=float, dest='to_s', metavar='S',
                        help='second at which it ends (default: the last)')
    parser.add_argument('--reason', default='a person in the pictures asked for it',
                        help='why; it is public (default: %(default)s)')
    parser.add_argument('--by', required=True, metavar='NAME', help='who blurs, for the log')
    parser.add_argument('--yes', action='store_true', help='do not ask')
    add_place(parser)


def run_blur(args: argparse.Namespace) -> int:
    """
    Blur a part of a video of a session that counts, on the server's own machine.

        arena admin blur SESSION A left --box 900 40 1180 420 --by ada --data arena-data
        arena admin blur SESSION B wrist --whole --from 2 --to 7.5 --by ada

    A new video takes the place of the old one. The old one, the other eye's video, the bag and the
    start photograph of that camera are deleted: they show the same pictures. The log keeps their
    hashes and gets the new video's. Look at the new video, and at those of the other cameras.

    A backup that was made before still has the files: make a new one, and delete the old.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.recording.episode.frames import Blur
    from arena_robot.server.upkeep.erasing import eraser_of

    config, say = config_at(args), sentences(args)
    blur = Blur(tuple(tuple(box) for box in args.boxes), args.from_s, args.to_s)
    with _database(config) as database:
        eraser = eraser_of(config, database, SystemClock())
        plan = eraser.blur_plan(args.session, args.slot, args.camera, blur)
        say(f'{plan.target.key} will replace {plan.source.key}. Deleted for good, as they show it '
            'unblurred:', *(f'  {item.file.key}' for item in plan.removed), sep='\n')
        say(f"Kept, look at them too: {', '.join(plan.kept) or 'no other video'}")
        if not args.yes:
            say('Type the id of the session to go on:')
            if sys.stdin.readline().strip() != args.session:
                raise DataError('nothing was changed: that was not the id of the session')
        with ProgressBar() as bar:
            done = eraser.blur(plan, blur, args.reason, args.by, bar.show)
    print(json_text({'session': args.session, 'blurred': done.target.key,
                     'deleted': [item.file.key for item in done.removed]}) if args.json else
          f'made {done.target.key}, deleted {len(done.removed)} files; look at the new video, '
          'make a backup, and delete older ones')
    return 0
