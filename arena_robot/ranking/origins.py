"""Where comparisons come from: through a server's relay, imported from tables, or local."""

from collections import Counter
from collections.abc import Iterable, Mapping

from arena_robot.core.episode import Comparison

RELAYED = 'relayed'
UNKNOWN = 'of unknown origin'


def origins(comparisons: Iterable[Comparison]) -> dict[str, int]:
    """Return how many comparisons came through a relay, and how many did not, by origin."""
    return dict(sorted(Counter(one.origin or UNKNOWN for one in comparisons).items()))


def not_relayed(found: Mapping[str, int]) -> str:
    """Return in words how many did not pass a relay: '3 imported, 1 local'; '' for none."""
    return ', '.join(f'{number} {origin}' for origin, number in found.items() if origin != RELAYED)


def not_relayed_of(comparisons: Iterable[Comparison]) -> dict[str, str]:
    """Return :func:`not_relayed` for each policy that has such comparisons."""
    counted = Counter((one.a, one.b, one.origin or UNKNOWN) for one in comparisons
                      if one.origin != RELAYED)
    of: dict[str, dict[str, int]] = {}
    for (a, b, origin), number in sorted(counted.items()):
        for name in (a, b):
            found = of.setdefault(name, {})
            found[origin] = found.get(origin, 0) + number
    return {name: not_relayed(dict(sorted(found.items()))) for name, found in sorted(of.items())}
