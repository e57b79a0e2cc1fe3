"""Where a policy is called, and what the caller shows to it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PolicyTarget:
    """A policy's address, with its IP address pinned, and its token ('' none), never printed."""

    address: str
    token: str = field(default='', repr=False)
