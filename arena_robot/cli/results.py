"""Verbs on what a server holds: export, verify, correct, categorise."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import (
    add_model_arguments,
    add_place,
    add_server_arguments,
    calls,
    chat_client,
    config_at,
)
from arena_robot.cli.terminal import json_text, sentences

if TYPE_CHECKING:
    from arena_robot.reports.task_scenes import SceneModel, TaskScene
    from arena_robot.server.transparency.verify import Checked


def export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_place(parser)
    parser.add_argument('--output', type=Path, required=True, metavar='DIR')
    parser.add_argument('--files', action='store_true', help='bags, videos and steps too')


def run_export(args: argparse.Namespace) -> int:
    """
    Export the results of an arena server: tables, and sessions with all their files.

        arena results export --data arena-data --output out
        arena results export --config server.yaml --output out --files
        arena episode export out/sessions/* --format roboarena --output dump

    Writes sessions.csv and episodes.csv with the columns that `arena rank` reads; with --files
    every finished session as a folder below sessions/, as a station keeps it. The server may be
    running.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.results.exports import export_tables, materialise
    from arena_robot.server.sealing import seal_of
    from arena_robot.server.store.blobs import Blobs
    from arena_robot.server.store.browse import Browse
    from arena_robot.server.store.database import Database
    from arena_robot.server.store.uploads import Uploads

    config, say, count = config_at(args), sentences(args), 0
    key = config.key_path()
    with Database(config.database_url(), seal_of(key) if key.exists() else None) as database:
        tables = export_tables(database, args.output)
        say('\n'.join(map(str, tables)))
        if args.files:
            blobs = Blobs(config.blobs_url())
            blobs.open()
            uploads = Uploads(database, blobs, config.data / 'spool', SystemClock())
            for folder in materialise(Browse(database), uploads, blobs, args.output / 'sessions'):
                count += 1
                print(f'\r{count} sessions, the last {folder.name}', end='', file=sys.stderr)
            say(f'{count} sessions with their files in {args.output / "sessions"}')
    if args.json:
        print(json_text({'tables': list(tables), 'sessions_with_files': count}))
    return 0


def verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('log', type=Path, metavar='FILE', help='what /api/log of the site returns')
    parser.add_argument('--key', default='', metavar='HEX', help="the server's public key")
    parser.add_argument('--head', type=Path, action='append', default=[], metavar='FILE',
                        help='a head saved before, JSON; can be repeated')
    parser.add_argument('--receipts', type=Path, metavar='DIR',
                        help="the folder of a station's sessions: receipts, records, promises")
    parser.add_argument('--release', type=Path, action='append', default=[], metavar='FILE',
                        help='a file of a frozen release; can be repeated')


def run_verify(args: argparse.Namespace) -> int:
    """
    Check a server's leaderboard offline, from its log.

        curl --fail --retry 99 -o log.json https://arena.example.org/api/log
        arena results verify log.json --key 3f2a... --head head_of_march.json
        arena results verify log.json --receipts ~/arena/sessions
        arena results verify log.json --release release.json

    The log holds every session that counts. Its hashes, signed head, commitments, reveals and the
    standings are computed anew. Heads that were saved before (`/api/log/head`) and the sessions of
    a station show that nothing was removed or changed since: its receipts, its own record of each
    verdict, and what the server signed when it gave the pair and when it took the verdict.
    A file of a release must have a hash that is in the log; of its release.json entries,
    standings and results by task are checked as well, and that the log only grew since.
    """
    from arena_robot.records.session_file import RECEIPT_FILE, read_session, session_paths
    from arena_robot.server.files import digest_of
    from arena_robot.server.transparency.verify import check_bundle, check_release
    frozen = [_read(path) for path in args.release if path.suffix == '.json']
    receipts = sorted(args.receipts.glob(f'*/{RECEIPT_FILE}')) if args.receipts else []
    checked = check_bundle(_read(args.log), args.key, [
        *map(_read, args.head), *(values.get('head', {}) for values in frozen)],
                           [_read(path) for path in receipts],
                           [read_session(path.parent) for path in session_paths(args.receipts)]
                           if args.receipts else [])
    for values in frozen:
        check_bundle(values, checked.head.key)
    releases = {str(path): check_release(checked, digest_of(path), str(path))
                for path in args.release}
    print(json_text({**_plain(checked), 'releases': releases}) if args.json else '\n'.join(
        [*_checked_lines(checked, bool(args.key)), *(
            f'{path} is of release {name}, unchanged' for path, name in releases.items())]))
    return 0


def _plain(checked: 'Checked') -> dict[str, Any]:
    return {'entries': checked.head.size, 'comparisons': len(checked.comparisons),
            'chosen': checked.chosen, 'withdrawn': checked.withdrawn, 'erased': checked.erased,
            'erased_files': checked.erased_files, 'origins': dict(checked.origins),
            'root': checked.head.root, 'key': checked.head.key, 'method': checked.method,
            'omitted': [session for session, _ in checked.omitted],
            'late_probation': list(checked.late_probation), 'heads': checked.heads,
            'receipts': checked.receipts}


def _checked_lines(checked: 'Checked', key_known: bool) -> Iterator[str]:
    from arena_robot.core.clock import to_iso
    yield (f'{checked.head.size} entries, {len(checked.comparisons)} comparisons count, '
           f'{checked.withdrawn} withdrawn'
           + (f'; {checked.erased_files} files were removed or blurred by the maintainer'
              if checked.erased else ''))
    for origin, number in sorted(checked.origins.items()):
        yield f'  {number} {origin}'
    if checked.chosen:
        yield f'  in {checked.chosen} the pair was chosen by earlier verdicts'
    yield f'root {checked.head.root}'
    yield f'key  {checked.head.key}' + (
        '' if key_known else '   (not compared with a key known from elsewhere)')
    yield (f'scores and counts of the standings ({checked.method}) follow from the log'
           if checked.method else
           'there are no standings to check: no two policies can be compared')
    for session, time_ns in checked.omitted:
        yield (f'session {session} is not in the log, and the server signed at {to_iso(time_ns)} '
               'that it took a valid verdict of it; its notice at the station says why it does '
               'not count')
    for session in checked.late_probation:
        yield (f'session {session} is left out as one of a policy on probation, and both of its '
               'policies had counted before')
    yield f'nothing was removed since {checked.heads} saved heads and {checked.receipts} receipts'


def _read(path: Path) -> dict[str, Any]:
    from arena_robot.core.errors import DataError
    try:
        values = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} cannot be read: {error}') from error
    if not isinstance(values, dict):
        raise DataError(f'{path} holds no JSON object')
    return values


def correct_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('session')
    parser.add_argument('text', help='what is corrected, and why')
    parser.add_argument('--withdraw', action='store_true', help='the session counts no longer')
    add_server_arguments(parser)


def run_correct(args: argparse.Namespace) -> int:
    """
    Append a correction to a session that counts, or withdraw it.

        arena results correct SESSION 'the cup was blue'
        arena results correct SESSION 'the wrong robot was on' --withdraw

    For the session's evaluator and for maintainers. The verdict itself stays as it is; the
    correction is an entry of the server's log.
    """
    from arena_robot.server.proto import arena_server_pb2 as pb
    calls(args)('Correct', pb.CorrectionRequest(
        session_id=args.session, text=args.text, withdraw=args.withdraw))
    print(json_text({'session': args.session, 'withdrawn': args.withdraw}) if args.json else
          'withdrawn' if args.withdraw else 'the correction is in the log')
    return 0


def categorise_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('instruction', nargs='*', help='an instruction, in quotes')
    parser.add_argument('--check', type=Path, metavar='CSV', help="compare with a person's labels")
    parser.add_argument('--also', type=Path, nargs='+', metavar='CSV', default=[],
                        help='other labels, whose words count as known (default: none)')
    where = parser.add_mutually_exclusive_group()
    where.add_argument('--data', type=Path, metavar='DIR', help="an arena server's data folder")
    where.add_argument('--config', type=Path, metavar='FILE', help="an arena server's file")
    parser.add_argument('--limit', type=int, default=1000, metavar='N',
                        help='at most so many sessions (default %(default)s)')
    add_model_arguments(parser)


def run_categorise(args: argparse.Namespace) -> int:
    """
    Say what kind of task an instruction is, by rules or by a vision model.

        arena results categorise 'put the cup on the plate'
        arena results categorise --check labels.csv
        arena results categorise --check labels.csv --also other_labels.csv
        arena results categorise --check labels.csv --model --dry-run
        arena results categorise --data arena-data --model --prices 2.5,10 --budget 5

    --check compares with the labels of a person: a table with the columns instruction and
    category; it prints the accuracy with its interval and the confusion table, and for the rules
    the accuracy of those words alone that another label has as well, of this table or of --also's.
    --data or --config, with --model, looks at the sessions of an arena server that the model has
    not seen, newest first, with their first pictures, and stores who said what. What a maintainer
    corrected stays.
    """
    from arena_robot.core.errors import ConfigError
    ways = [bool(args.instruction), bool(args.check), bool(args.data or args.config)]
    if not all(text.strip() for text in args.instruction):
        raise ConfigError("an instruction is empty; write what a robot is to do, such as 'put the "
                          "cup on the plate'")
    if sum(ways) != 1:
        raise ConfigError('give instructions, or --check CSV, or --data DIR')
    if ways[2]:
        if not args.model:
            raise ConfigError('a server categorises by rules itself; give --model')
        return _sessions(args)
    if args.check:
        return _check(args)
    scenes = _scenes(args, args.instruction)
    rows = list(zip(args.instruction if scenes else (), scenes, strict=True))
    if args.json:
        print(json_text([{'instruction': text, 'category': scene.category, 'method': scene.method,
                          'confidence': scene.confidence} for text, scene in rows]))
        return 0
    for text, scene in rows:
        sure = '' if scene.confidence is None else f', confidence {scene.confidence:.2f}'
        print(f'{text}: {scene.category} ({scene.method}{sure})')
    return 0


def _sessions(args: argparse.Namespace) -> int:
    """Ask the model for each session that it has not seen, newest first, and store its answer."""
    from contextlib import closing

    from arena_robot.core.clock import SystemClock
    from arena_robot.core.errors import BudgetSpent
    from arena_robot.reports.task_scenes import SceneModel
    from arena_robot.server.store.categories import Categories
    from arena_robot.web.site.server_jobs import described, opened, unseen_sessions
    problems: list[str] = []
    say = sentences(args)
    with closing(chat_client(args)) as chat, opened(config_at(args)) as (database, blobs):
        table, model = Categories(database, SystemClock()), SceneModel(chat)
        try:
            for session_id, prompt, pictures in unseen_sessions(
                    database, blobs, table, chat.model, args.limit):
                if args.dry_run:
                    say(model.preview(prompt, pictures))
                    continue
                category, problem = described(model, chat.model, prompt, pictures)
                if problem:
                    say(f'{session_id}: by rules: {problem}')
                problems.append(problem)
                table.store(session_id, category)
        except BudgetSpent as error:
            say(f'stopped: {error}')
        bad = sum(map(bool, problems))
        say(f'{len(problems) - bad} sessions categorised by {chat.model}'
            + f', {bad} without a fitting answer by rules' * (bad > 0)
            + f'; {chat.usage.calls} calls, cost {chat.usage.cost:.4f}')
        if args.json:
            print(json_text({'model': chat.model, 'categorised': len(problems) - bad,
                             'by_rules': bad, 'calls': chat.usage.calls,
                             'cost': chat.usage.cost}))
    return 0


def _check(args: argparse.Namespace) -> int:
    from arena_robot.core.csv_tables import rows_of
    from arena_robot.core.wilson import wilson
    from arena_robot.reports.task_scenes import agreement, left_out, membership, read_labels
    labels, say = read_labels(args.check), sentences(args)
    texts = list(dict.fromkeys(row['instruction'] for _, row in rows_of(args.check)))
    scenes = _scenes(args, texts)
    if not scenes:
        return 0
    categories = {text: scene.category for text, scene in zip(texts, scenes, strict=True)}
    measured = agreement(labels, [categories[label.instruction] for label in labels])
    result: dict[str, Any] = {'right': measured.right, 'of': measured.count,
                              'interval': measured.interval}
    say(measured.words())
    right, count = membership(args.check, categories)
    if count > len(labels):
        low, high = wilson(right, count)
        result['membership'] = {'right': right, 'of': count, 'interval': (low, high)}
        say(f'\nof {count} answers "of this category" or "not of it" {right} right: '
            f'{right / count:.3f} ({low:.3f} to {high:.3f})')
    if not args.model:
        others = [label for path in args.also for label in read_labels(path)]
        measured = agreement(labels, left_out(labels, others))
        low, high = measured.interval
        result['words_of_others'] = {'right': measured.right, 'of': measured.count,
                                     'interval': measured.interval}
        say(f'\nby the words alone that another label has as well: {measured.right} of '
            f'{measured.count}, accuracy {measured.right / measured.count:.3f} '
            f'({low:.3f} to {high:.3f})')
    if args.json:
        print(json_text(result))
    return 0


def _scenes(args: argparse.Namespace, instructions: Sequence[str]) -> 'list[TaskScene]':
    """Return the category of each instruction; nothing in a dry run, which prints instead."""
    from arena_robot.reports.task_scenes import SceneModel, by_rules
    if not args.model:
        return [by_rules(text) for text in instructions]
    chat = chat_client(args)
    try:
        model = SceneModel(chat)
        if args.dry_run:
            sentences(args)('\n\n'.join(map(model.preview, instructions)))
            return []
        return [_asked(model, text, sentences(args)) for text in instructions]
    finally:
        chat.close()


def _asked(model: 'SceneModel', instruction: str, say: Callable[..., None]) -> 'TaskScene':
    """Return the model's answer; one of no category where it gives no fitting one."""
    from arena_robot.core.errors import ModelBadReply
    from arena_robot.reports.task_scenes import TaskScene
    try:
        return model.describe(instruction)
    except ModelBadReply as error:
        say(f'{instruction}: {error}')
        return TaskScene('', 'model')
