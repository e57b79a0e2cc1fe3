"""Check that the session's journal and the bag agree."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from arena_robot.core.errors import DataError
from arena_robot.recording.bag.stream_check import Result
from arena_robot.records.episode_file import EpisodeFile
from arena_robot.records.journal_file import JOURNAL, Entry, read_journal

_TORN_STEPS = 45


def journal_findings(folder: Path, summary: EpisodeFile) -> Iterator[Result]:
    """
    Yield (good, what, text) for the journal beside ``folder``; nothing when there is none.

    An incomplete last line is what a power failure leaves, and is ignored. A rollout that was cut
    off is in the journal up to its last entry, so the number of its steps may differ.
    """
    path = folder.absolute().parent / JOURNAL
    if not path.exists():
        return
    try:
        end = _end(list(read_journal(path)), summary)
    except (DataError, ValueError, KeyError, TypeError) as error:
        yield False, 'journal', f'{path} is damaged: {error}'
        return
    if end is None:
        yield False, 'journal', f'{path} does not say how slot {summary.slot} ended'
        return
    apart = abs(end['steps'] - summary.steps)
    yield (apart <= (_TORN_STEPS if end.get('torn') else 0), 'journal',
           f"{end['steps']} steps in the journal, {summary.steps} in the bag")
    if summary.end_reason:
        yield (end['end'] == summary.end_reason, 'journal',
               f"ended '{end['end']}' in the journal, '{summary.end_reason}' in the bag")


def _end(entries: Sequence[Entry], summary: EpisodeFile) -> Mapping[str, Any] | None:
    """Return how the rollout of a recording ended; a slot that was run again has several."""
    ends = list(_ends(entries, summary.slot))
    begin_ns = summary.started_ns
    if begin_ns is None:
        return ends[-1] if ends else None
    return min(ends, key=lambda end: abs(end['start_ns'] - begin_ns), default=None)


def _ends(entries: Sequence[Entry], slot: str) -> Iterator[Mapping[str, Any]]:
    running, start_ns = '', 0
    for entry in entries:
        move = entry.move
        if move.startswith('started_'):
            running, start_ns = move[-1].upper(), entry.stamp_ns
        elif move == 'ended' and running == slot:
            yield {'steps': int(entry.data['steps']), 'end': str(entry.data['end']),
                   'start_ns': int(entry.data.get('started_ns', start_ns))}
            running = ''
        elif move == 'recovered' and running == slot:
            yield {'steps': _last_tick(entries, entry), 'end': 'interrupted', 'torn': True,
                   'start_ns': start_ns}
            running = ''


def _last_tick(entries: Sequence[Entry], until: Entry) -> int:
    ticks = [e.data['steps'] for e in entries if e.move == 'ticked' and e.n < until.n]
    return int(ticks[-1]) if ticks else 0
