"""A blind pair: what a station tells an arena, is promised by it, and learns in the end."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class StationInfo:
    """What the arena is told about a station: never anything that differs between slots."""

    station: str
    robot: str
    external_cameras: int = 2
    wrist_camera: bool = True
    stereo: bool = True


@dataclass(frozen=True)
class Assignment:
    """
    A blind pair: ``commitment`` is the hex SHA-256 over the nonce and the ordered pair.

    The slot policies are reached through the arena's ``policy``; nothing here can name them.
    """

    session_id: str
    commitment: str


@dataclass(frozen=True)
class Reveal:
    """What the commitment stood for: ``nonce`` hex, names and versions in slot order."""

    nonce: str
    policy_a: str
    policy_b: str


def commitment(nonce: str, policy_a: str, policy_b: str) -> str:
    """Return the hex SHA-256 of ``nonce``, ``policy_a``, ``policy_b`` joined by newlines."""
    text = '\n'.join([nonce, policy_a, policy_b])
    return hashlib.sha256(text.encode('utf-8')).hexdigest()
