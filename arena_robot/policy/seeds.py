"""Seeds of sampled rollouts: the same episode token has the same seed."""

import hashlib
from functools import lru_cache


@lru_cache(1000)    # each query of an episode asks
def seed_of(episode: str) -> int:
    """Return the seed of an episode's token, 1 to 2**32 - 1, the same on every machine."""
    digest = hashlib.sha256(f'seed of episode {episode}'.encode()).digest()
    return int.from_bytes(digest[:4], 'big') or 1
