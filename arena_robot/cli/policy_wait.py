"""Wait for a policy server with a line of progress on standard error."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.policy.options import CallOptions

EVERY_S = 10.0    # a line, where the output is not a terminal


def await_server(address: str, options: 'CallOptions', wait_s: float) -> None:
    """Return when the server at an address answers; PolicyError after ``wait_s``."""
    from arena_robot.policy.connect import connect
    told_s = -EVERY_S

    def tell(waited_s: float, error: str) -> None:
        nonlocal told_s
        terminal = sys.stderr.isatty()
        if not terminal and waited_s < told_s + EVERY_S:
            return
        told_s = waited_s
        begin, end = ('\r', '\x1b[K') if terminal else ('', '\n')
        print(f'{begin}waiting for {address}: {waited_s:.0f} of {wait_s:g} s{end}', end='',
              file=sys.stderr, flush=True)

    try:
        connect(address, options, wait_s, tell).close()
    finally:
        if told_s >= 0.0 and sys.stderr.isatty():
            print(file=sys.stderr)
    if told_s >= 0.0:
        print(f'{address} answers', file=sys.stderr)
