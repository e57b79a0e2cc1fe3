"""The interval of a share that was counted: E. B. Wilson, JASA 22 (1927)."""

import math

Z95 = 1.959963984540054


def wilson(successes: float, count: int, z: float = Z95) -> tuple[float, float]:
    """
    Return the Wilson score interval of the share ``successes / count``; (0, 1) for no count.

    (p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n). A tie can count as half a success.
    """
    if count <= 0:
        return 0.0, 1.0
    p, scale = successes / count, 1.0 + z * z / count
    middle = p + z * z / (2.0 * count)
    reach = z * math.sqrt(p * (1.0 - p) / count + z * z / (4.0 * count * count))
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)
