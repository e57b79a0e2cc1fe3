"""Where a policy is called, and what the caller shows to it."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from arena_robot.policy.options import CallOptions

DEFAULTS = CallOptions()


@dataclass(frozen=True)
class PolicyTarget:
    """
    A policy's address, with its IP address pinned, its token and its private authority.

    ``token`` is never printed; ``tls_ca`` is the authority's certificate in PEM. Both may be ''.
    """

    address: str
    token: str = field(default='', repr=False)
    tls_ca: str = field(default='', repr=False)

    def options(self, base: CallOptions = DEFAULTS, **changes: Any) -> CallOptions:
        """Return how it is called: as ``base`` with ``changes``, and what is shown to it."""
        return dataclasses.replace(base, token=self.token, tls_ca_pem=self.tls_ca, **changes)
