"""
The campaign of `make attack`: odd inputs at every border, on this machine only.

    python test/attack/campaign.py                    10000 inputs per border
    python test/attack/campaign.py --inputs 500       a short one

The last line sums it up; the exit code is 1 when anything went wrong.
"""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from borders import all_borders
from server_calls import server_calls
from tally import table


def main() -> int:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(description='attack every border on this machine')
    parser.add_argument('--inputs', type=int, default=10_000, help='inputs per border')
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        tallies = [*all_borders(args.inputs, args.seed),
                   *server_calls(Path(folder), args.inputs, args.seed)]
    sys.stdout.write(table(tallies) + '\n')
    return 1 if any(t.bad for t in tallies) else 0


if __name__ == '__main__':
    sys.exit(main())
