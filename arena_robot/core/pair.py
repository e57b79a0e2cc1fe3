"""
A blind pair: station description, assignment with commitment, reveal, and entries of the log.

An entry is canonical JSON, so that the same facts have the same bytes: the server writes entries,
the station compares its own with what it sent, and anybody reads them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from arena_robot.core.errors import DataError
from arena_robot.core.verdict import Verdict, to_plain


@dataclass(frozen=True)
class StationInfo:
    """
    Description of a station for the arena; nothing in it differs between slots.

    ``stereo``: a session uses both eyes of all cameras; ``depths``: roles of those whose depth it
    uses. ``equal_latency``: both policies of a pair are to take as long as the slower one.
    """

    station: str
    robot: str
    external_cameras: int = 2
    wrist_camera: bool = True
    stereo: bool = True
    equal_latency: bool = False
    depths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """
    A blind pair: ``commitment`` is the hex SHA-256 over the nonce and the ordered pair.

    The policies are called through the arena's ``policy``; nothing here identifies them.
    ``promise`` is what a server signed of it, with the time; '' without one. ``photo_code`` is to
    be seen in the start photograph; '' in most sessions.
    """

    session_id: str
    commitment: str
    promise: str = field(default='', compare=False)
    photo_code: str = ''


@dataclass(frozen=True)
class Reveal:
    """
    The values behind the commitment: ``nonce`` hex, names and versions in slot order.

    ``probation`` tells that a policy of the pair was on probation when the pair was drawn.
    ``chosen`` tells whether the pair was chosen by earlier verdicts; None: not known.
    ``receipt`` is a server's signed proof, JSON, that the session is in its log; '' without one,
    and ``objection`` says what is wrong with it.
    """

    nonce: str
    policy_a: str
    policy_b: str
    receipt: str = field(default='', compare=False)
    probation: bool = False
    objection: str = field(default='', compare=False)
    chosen: bool | None = field(default=None, compare=False)

    def fits(self, promised: str) -> bool:
        """Tell whether this is what a commitment stands for."""
        return commitment(self.nonce, self.policy_a, self.policy_b, self.probation) == promised


def commitment(nonce: str, policy_a: str, policy_b: str, probation: bool = False) -> str:
    """
    Return the hex SHA-256 of ``nonce``, ``policy_a``, ``policy_b`` joined by newlines.

    A pair with a policy on probation has one more line, so that nobody decides afterwards which
    results are left out.
    """
    text = '\n'.join([nonce, policy_a, policy_b, *(['on probation'] if probation else [])])
    return hashlib.sha256(text.encode('utf-8')).hexdigest()


def canonical(values: Mapping[str, Any]) -> str:
    """Return JSON whose bytes depend on nothing but the values."""
    return json.dumps(values, sort_keys=True, separators=(',', ':'), ensure_ascii=False,
                      allow_nan=False)


def read_canonical(text: str, where: str) -> dict[str, Any]:
    """Return the values of canonical JSON; DataError for another text, such as a name twice."""
    try:
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError('it is no object')
        if canonical(values) != text:
            raise ValueError('it is not canonical: a name twice, or another order or spelling')
    except (ValueError, RecursionError) as error:
        raise DataError(f'{where} cannot be read: {error}') from error
    return values


def said(verdict: Verdict) -> dict[str, Any]:
    """Return what a verdict says, as an entry has it: what was not said is left out."""
    return {name: value for name, value in to_plain(verdict).items() if value not in (None, '')}


def verdict_sha256(words: Mapping[str, Any]) -> str:
    """Return the hash by which a server promises to keep what :func:`said` returns."""
    return hashlib.sha256(canonical(words).encode()).hexdigest()


def objection(entry: Mapping[str, Any], session_id: str, commitment: str, prompt: str,
              verdict: Verdict) -> str:
    """Return in what an entry differs from the records of its station; '' when in nothing."""
    ours = {'session': session_id, 'commitment': commitment, 'prompt': prompt.strip(),
            'verdict': said(verdict)}
    wrong = [name for name, value in ours.items() if entry.get(name) != value]
    return f"the log has another {' and another '.join(wrong)} than the station sent" \
        if wrong else ''
