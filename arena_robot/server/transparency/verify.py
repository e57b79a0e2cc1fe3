"""
Check a published leaderboard offline: from the log, the commitments, the reveals, saved heads.

Nothing is taken on trust: hashes, signatures, commitments and standings are computed anew.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from arena_robot.core.clock import to_iso
from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import DataError, RankingError
from arena_robot.core.pair import Reveal, objection, read_canonical, verdict_sha256
from arena_robot.core.verdict import from_plain
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import METHODS, rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.records.session_file import LOCAL_STUDY, SessionFile, Source
from arena_robot.server.transparency.keys import (
    DRAW,
    VERDICT,
    SignedHead,
    read_head,
    read_promise,
    read_receipt,
)
from arena_robot.server.transparency.log import CORRECTION, ERASURE, RELEASE, SESSION
from arena_robot.server.transparency.merkle import MerkleTree, leaf_hash

SAME = 1e-6    # relative: another machine rounds otherwise
NEEDED = {SESSION: ('session', 'origin', 'commitment', 'probation', 'verdict', 'created_ns'),
          CORRECTION: ('session', 'withdraw'), ERASURE: ('session', 'files', 'reason'),
          RELEASE: ('name', 'doi', 'size', 'files')}


@dataclass(frozen=True)
class Checked:
    """
    What a bundle proves: the comparisons that count, and how many entries of each origin.

    ``method`` is that of the standings that were computed anew; '' when no two policies can be
    compared, and the bundle has none. ``omitted`` are (session, time of the promise) of valid
    verdicts that the server signed to have taken and that are not in the log. ``late_probation``
    are sessions left out for a probation of policies that had both counted before. Of
    ``erased`` sessions ``erased_files`` files were deleted, or replaced by a blurred video; what
    the log says of them stays. ``releases`` are the entries of frozen releases, by name.
    """

    head: SignedHead
    comparisons: tuple[Comparison, ...]
    origins: Mapping[str, int]
    withdrawn: int
    heads: int
    receipts: int
    method: str
    omitted: tuple[tuple[str, int], ...] = ()
    late_probation: tuple[str, ...] = ()
    erased: int = 0
    erased_files: int = 0
    releases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def chosen(self) -> int:
        """Return of how many comparisons the pair was chosen by earlier verdicts."""
        return sum(row.chosen is True for row in self.comparisons)


def check_bundle(bundle: Mapping[str, Any], key: str = '',
                 heads: Iterable[Mapping[str, Any]] = (),
                 receipts: Iterable[Mapping[str, Any]] = (),
                 sessions: Iterable[SessionFile] = ()) -> Checked:
    """
    Return what a bundle proves; DataError says what is wrong with it.

    ``key`` is the server's public key, known from elsewhere; ``heads`` were saved before;
    ``receipts`` are those that stations got with their reveals, ``sessions`` their own records.
    """
    bodies, reveals = _contents(bundle)
    head = read_head(bundle.get('head', {}), 'the head of the bundle')
    if key and key != head.key:
        raise DataError(f'the log is signed with the key {head.key}, not {key}')
    tree = MerkleTree([leaf_hash(body.encode()) for body in bodies])
    if head.size != len(bodies) or head.root != tree.root().hex():
        raise DataError(f'the signed head is of another log: {head.size} entries with root '
                        f'{head.root}, found {len(bodies)} with {tree.root().hex()}')
    saved = [_extends(old, head, tree) for old in heads]
    shown = [_has_receipt(receipt, head, bodies, tree) for receipt in receipts]
    entries = _entries(bodies)
    counted, origins, withdrawn = _comparisons(entries, reveals)
    method = _check_standings(bundle.get('standings') or {}, counted)
    if 'tasks' in bundle and bundle['tasks'] != task_results(counted):
        raise DataError('the results by task do not follow from the log')
    by_id = {entry['session']: entry for entry in entries if entry['kind'] == SESSION}
    omitted = tuple(promise for session in sessions
                    if (promise := _agrees(session, by_id.get(session.session_id), head)))
    tombstones = [entry for entry in entries if entry['kind'] == ERASURE]
    return Checked(head, tuple(counted), origins, withdrawn, len(saved), len(shown), method,
                   omitted, _late_probation(entries, reveals),
                   len({entry['session'] for entry in tombstones}),
                   sum(len(entry['files']) for entry in tombstones),
                   {entry['name']: entry for entry in entries if entry['kind'] == RELEASE})


def check_release(checked: Checked, sha256: str, where: str) -> str:
    """Return the release of a file by the log; DataError when the log has no such file."""
    for name, entry in checked.releases.items():
        if any(file['sha256'] == sha256 for file in entry['files'].values()):
            return name
    raise DataError(f'{where} has the SHA-256 {sha256}, which the log has for no file of a release'
                    f" ({', '.join(checked.releases) or 'it has no release'})")


def task_results(comparisons: Iterable[Comparison]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return wins, ties, losses and mean progress of each policy by instruction."""
    tasks: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for row in comparisons:
        for slot, name, progress in (('A', row.a, row.progress_a), ('B', row.b, row.progress_b)):
            end = 'ties' if row.preference is Preference.TIE else \
                'wins' if row.preference == slot else 'losses'
            tasks.setdefault(row.prompt, {}).setdefault(name, []).append((end, progress))
    return {prompt: {name: {
        **{end: sum(one == end for one, _ in runs) for end in ('wins', 'ties', 'losses')},
        'progress': _mean([progress for _, progress in runs if not math.isnan(progress)])}
        for name, runs in sorted(names.items())} for prompt, names in sorted(tasks.items())}


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def counted_comparisons(bundle: Mapping[str, Any]) -> list[Comparison]:
    """Return the comparisons that count by the entries of a bundle, or raise DataError."""
    bodies, reveals = _contents(bundle)
    return _comparisons(_entries(bodies), reveals)[0]


def _contents(bundle: Mapping[str, Any]) -> tuple[list[str], dict[str, Reveal]]:
    try:
        return ([str(body) for body in bundle['entries']],
                {name: Reveal(**reveal) for name, reveal in bundle['reveals'].items()})
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f'this is not a bundle of a log: {error!r}') from error


def _extends(values: Mapping[str, Any], head: SignedHead, tree: MerkleTree) -> SignedHead:
    old = read_head(values, 'a saved head')
    if old.key != head.key:
        raise DataError(f'a saved head is signed with another key: {old.key}')
    if old.size > head.size or tree.root(old.size).hex() != old.root:
        raise DataError(f'entries were removed or changed since {to_iso(old.time_ns)}: the log '
                        f'then had {old.size} entries with root {old.root}')
    return old


def _has_receipt(values: Mapping[str, Any], head: SignedHead, bodies: list[str],
                 tree: MerkleTree) -> int:
    receipt = read_receipt(values)
    _extends(receipt.head.plain(), head, tree)
    if bodies[receipt.number] != receipt.body:
        raise DataError(f'session {receipt.session_id} has a receipt for entry {receipt.number}, '
                        'and the log has another entry there')
    return receipt.number


def _agrees(session: SessionFile, entry: Mapping[str, Any] | None,
            head: SignedHead) -> tuple[str, int] | None:
    """
    Compare a station's record with the entry of its session; DataError when they differ.

    Returns session and time of a valid verdict that the server promised to keep, and that has no
    entry.
    """
    name, taken_ns = session.session_id, None
    for text in session.promises:
        kind = DRAW if f'"kind":"{DRAW}"' in text else VERDICT
        promise = read_promise(text, kind, name)
        if promise['key'] != head.key:
            raise DataError(f'the promise ({kind}) of session {name} is signed with another key: '
                            f"{promise['key']}")
        if kind == VERDICT:
            taken_ns = int(promise['time_ns'])
        if entry is not None and not _is_kept(promise, entry):
            raise DataError(f"the server signed at {to_iso(promise['time_ns'])} ({kind}) another "
                            f'thing of session {name} than its log says')
    if entry is None:
        is_left_out = taken_ns is not None and session.verdict.valid
        return (name, taken_ns or 0) if is_left_out else None
    if session.source is Source.STATION and (wrong := objection(
            entry, name, session.commitment, session.prompt, session.verdict)):
        raise DataError(f'session {name}: {wrong}')
    return None


def _is_kept(promise: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    if promise['kind'] == DRAW:
        return bool(promise.get('commitment') == entry['commitment'])
    return promise.get('sha256') == verdict_sha256(entry['verdict'])


def _late_probation(entries: list[dict[str, Any]], reveals: Mapping[str, Reveal],
                    ) -> tuple[str, ...]:
    """Return the sessions on probation between policies that both counted before their draw."""
    since: dict[str, int] = {}
    drawn = sorted((entry for entry in entries if entry['kind'] == SESSION),
                   key=lambda entry: int(entry['created_ns']))
    late = []
    for entry in drawn:
        names = _names(entry, reveals)
        if not entry['probation']:
            for name in names:
                since.setdefault(name, int(entry['created_ns']))
        elif all(name in since for name in names):
            late.append(str(entry['session']))
    return tuple(late)


def _entries(bodies: list[str]) -> list[dict[str, Any]]:
    """Return the entries; one about a session that was not entered before is an error."""
    entries, entered, frozen = [], set(), set()
    for number, body in enumerate(bodies):
        entry = _entry(number, body)
        if entry['kind'] == SESSION:
            entered.add(entry['session'])
        elif entry['kind'] == RELEASE:
            if entry['name'] in frozen or entry['size'] > number:
                raise DataError(f"release {entry['name']:.40} is frozen twice, or has entries "
                                'that came after it')
            frozen.add(entry['name'])
        elif entry['session'] not in entered:
            raise DataError(f"entry {number} of the log ({entry['kind']}) is about session "
                            f"{entry['session']}, which was not entered before")
        entries.append(entry)
    return entries


def _comparisons(entries: list[dict[str, Any]], reveals: Mapping[str, Reveal],
                 ) -> tuple[list[Comparison], dict[str, int], int]:
    taken_back = {entry['session'] for entry in entries
                  if entry['kind'] == CORRECTION and entry['withdraw']}
    origins: dict[str, int] = {}
    counted = []
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries):
        if entry['kind'] != SESSION:
            continue
        if (first := seen.setdefault(entry['session'], number)) != number:
            raise DataError(f"session {entry['session']} is entered twice, as {first} and "
                            f'{number}; a session counts once')
        origin = str(entry['origin'])
        origins[origin] = origins.get(origin, 0) + 1
        if origin == LOCAL_STUDY:
            if entry['commitment']:
                raise DataError(f"session {entry['session']} passed this server's relay, and the "
                                'log calls it one of a local study, which never counts')
            continue
        try:
            row = _comparison(entry, _names(entry, reveals))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f'entry {number} of the log cannot be read: {error!r}') from error
        if row is not None and entry['session'] not in taken_back and not entry['probation']:
            counted.append(row)
    return sorted(counted, key=lambda c: (c.created, c.session_id)), origins, len(taken_back)


def _entry(number: int, body: str) -> dict[str, Any]:
    values = read_canonical(body, f'entry {number} of the log')
    try:
        if values['kind'] not in NEEDED:
            raise ValueError(f"its kind is {values['kind']!r:.40}")
        for name in NEEDED[values['kind']]:
            values[name]
        if not isinstance(values[NEEDED[values['kind']][0]], str):
            raise ValueError(f"its {NEEDED[values['kind']][0]} is no text")
        if values['kind'] in (ERASURE, RELEASE) and not isinstance(values['files'], dict):
            raise ValueError('its files are no table')
        if values['kind'] == RELEASE:
            for file in values['files'].values():
                file['sha256']
        if 'blurred' in values and values['blurred']['of'] not in values['files']:
            raise ValueError('it blurs a file that it does not delete')
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f'entry {number} of the log cannot be read: {error!r}') from error
    return values


def _names(entry: Mapping[str, Any], reveals: Mapping[str, Reveal]) -> tuple[str, str]:
    session, promise = entry['session'], entry['commitment']
    if not promise:
        if entry['probation']:
            raise DataError(f'session {session} is on probation without a commitment to that')
        first, second = entry['policies']
        return str(first), str(second)
    reveal = reveals.get(session)
    if reveal is None:
        raise DataError(f'session {session} counts and its policies are not revealed')
    if not reveal.fits(promise) or reveal.probation is not entry['probation']:
        raise DataError(f'the reveal of session {session} does not fit its commitment')
    return reveal.policy_a, reveal.policy_b


def _comparison(entry: Mapping[str, Any], names: tuple[str, str]) -> Comparison | None:
    verdict = from_plain(entry['verdict'])
    if not verdict.valid or verdict.preference is None or names[0] == names[1]:
        return None
    nan = float('nan')
    scores = [nan if score is None else score
              for score in (verdict.progress_a, verdict.progress_b)]
    return Comparison(entry['session'], *names, verdict.preference, scores[0], scores[1],
                      entry.get('evaluator', ''), entry.get('institution', ''),
                      entry.get('prompt', ''), to_iso(entry['created_ns']), entry['origin'],
                      chosen=entry.get('chosen'))


def _check_standings(standings: Mapping[str, Any], comparisons: list[Comparison]) -> str:
    try:
        rows = [(str(row['policy']), row['score'], row['n']) for row in standings['standings']] \
            if standings else []
        theirs = {name: (math.nan if score is None else float(score), int(n))
                  for name, score, n in rows}
        method = str(standings['method']) if standings else RECOMMENDED
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f'the standings cannot be read: {error!r}') from error
    if len(theirs) < len(rows):
        raise DataError('the leaderboard names a policy twice')
    try:
        METHODS.find_named(method)
        ranked, _ = rank_comparable(Comparisons.from_words(comparisons), method)
    except RankingError as error:
        if standings:
            raise DataError(f'the leaderboard does not follow from the log: {error}') from error
        return ''
    if not standings:
        raise DataError(f'the bundle has no standings, and {len(comparisons)} comparisons count')
    _compare({name: (float(ranked.scores[k]), int(ranked.counts[k]))
              for k, name in enumerate(ranked.items)}, theirs)
    return method


def _compare(ours: Mapping[str, tuple[float, int]],
             theirs: Mapping[str, tuple[float, int]]) -> None:
    if ours.keys() != theirs.keys():
        raise DataError('the leaderboard names other policies than the log: '
                        f"{', '.join(sorted(ours.keys() ^ theirs.keys()))}")
    for name, (score, n) in ours.items():
        claimed, claimed_n = theirs[name]
        # A score that is not finite is null in JSON; NaN equals nothing.
        same = abs(score - claimed) <= SAME * max(1.0, abs(score)) if math.isfinite(score) \
            else math.isnan(claimed)
        if not same or n != claimed_n:
            raise DataError(f"the leaderboard gives '{name}' a score of {claimed:.6g} "
                            f'from {claimed_n} comparisons; the log gives {score:.6g} from {n}')
