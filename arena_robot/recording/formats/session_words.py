"""What ``session.json`` says of a session, as exports need it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from arena_robot.core.errors import DataError
from arena_robot.recording.episode.folders import SLOTS, episodes

SUMMARY = 'session.json'


@dataclass(frozen=True)
class SessionWords:
    """
    Names, words and scores; ``policies`` by slot are ``A`` and ``B`` until they are revealed.

    ``progress`` is 0 to 1 by slot, without those that were not scored.
    """

    session_id: str
    prompt: str = ''
    station: str = ''
    evaluator: str = ''
    created: str = ''
    updated: str = ''
    preference: str = ''
    explanation: str = ''
    valid: bool = True
    policies: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, float] = field(default_factory=dict)

    def policy(self, slot: str) -> str:
        """Return the policy in a slot, or the slot's own name while it is secret."""
        return self.policies.get(slot, slot)


def read_words(session: Path, fallback_id: str = '') -> SessionWords:
    """
    Return the words of the session in a folder; only its name when there is no session.json.

    Raises DataError when the file cannot be understood.
    """
    path = session / SUMMARY
    if not path.exists():
        return SessionWords(fallback_id or session.name)
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        reveal = data.get('reveal') or {}
        names = {s: reveal.get(f'policy_{s.lower()}') for s in SLOTS}
        scores = {s: data.get('slots', {}).get(s, {}).get('progress') for s in SLOTS}
        return SessionWords(
            session_id=str(data.get('session_id') or fallback_id or session.name),
            preference=str(data.get('preference') or ''), valid=bool(data.get('valid', True)),
            policies={s: str(n) for s, n in names.items() if n},
            progress={s: float(p) for s, p in scores.items() if p is not None},
            **{key: str(data.get(key) or '') for key in (
                'prompt', 'station', 'evaluator', 'created', 'updated', 'explanation')})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f'{path} cannot be understood: {error}') from error


@dataclass(frozen=True)
class ExportSource:
    """One episode to export: its folder, its slot, and its session."""

    folder: Path
    slot: str
    words: SessionWords


def sources(place: Path) -> list[ExportSource]:
    """Return the episodes at ``place``, a session or an episode. Raises DataError."""
    found = []
    for folder in episodes(place):
        folder = folder.absolute()
        words = read_words(folder.parent)
        found.append(ExportSource(folder, folder.name, words))
    return found
