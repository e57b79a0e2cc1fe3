"""A blind pair: station description, assignment with commitment, and reveal."""

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StationInfo:
    """
    Description of a station for the arena; nothing in it differs between slots.

    ``equal_latency``: both policies of a pair are to take as long as the slower one.
    """

    station: str
    robot: str
    external_cameras: int = 2
    wrist_camera: bool = True
    stereo: bool = True
    equal_latency: bool = False


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
