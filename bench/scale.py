"""
What an arena costs as labs join: measured costs of each use, times how often it is used.

`docs/scale.md` says where the numbers are from. What needs more than one server in the default
configuration has (one process, SQLite, a folder on one disk) comes with the engine that takes it,
what is exceeded most first.
"""

import argparse

SIZES = ((10, 100, 20), (100, 1000, 100), (1000, 10_000, 500))    # labs, stations, policies

# Measured on two cores: of a rollout, of an assignment (a verdict is about one), of a page.
ROLLOUT_MBIT, ROLLOUT_CORES, CALL_S, PAGE_S = 1.5, 0.24 / 20.0, 0.033, 0.02
UPLOAD_MB_PER_S, SESSION_MB, ROW_MB = 275.0, 15.0, 0.0011
RENEWAL_S = 1.5e-5    # of all standings, for each session there is

# Assumed: how stations are used (a peak is three times the mean), and what one machine has.
SESSIONS_PER_DAY, ROLLOUT_S, PEAK, PAGES_PER_SESSION, KEPT_DAYS = 20, 30.0, 3.0, 5, 365
LINK_MBIT, DISK_TB, LONGEST_RENEWAL_S = 1000.0, 4.0, 60.0

# Assumed prices of a month in dollars: a core, TB in an object store, TB sent, a database.
CORE, STORED_TB, SENT_TB, DATABASE = 25.0, 23.0, 80.0, 400.0


def needs(stations):
    """Return (what, used, of how much, unit, which engine takes it) of one server."""
    sessions = stations * SESSIONS_PER_DAY
    per_s = PEAK * sessions / 86_400
    at_once, kept = per_s * 2 * ROLLOUT_S, sessions * KEPT_DAYS
    cores = at_once * ROLLOUT_CORES + per_s * (2 * CALL_S + PAGES_PER_SESSION * PAGE_S)
    return (
        ('files of a year', kept * SESSION_MB / 1e6, DISK_TB, 'TB', 'object store'),
        ('standings anew', kept * RENEWAL_S, LONGEST_RENEWAL_S, 's', 'counts kept in PostgreSQL'),
        ('processor', cores, 1.0, 'cores', 'processes behind one balancer'),
        ('pictures in and out', 2 * at_once * ROLLOUT_MBIT, LINK_MBIT, 'Mbit/s',
         'relays per region'),
        ('uploads', per_s * SESSION_MB, UPLOAD_MB_PER_S, 'MB/s', 'object store'),
        ('rows of a year', kept * ROW_MB / 1e6, DISK_TB, 'TB', 'PostgreSQL partitions'),
    )


def main():
    """Print for each size what is used, who takes what is too much, and the price of a month."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for labs, stations, policies in SIZES:
        rows = {what: row for what, *row in needs(stations)}
        at_once = rows['pictures in and out'][0] / 2 / ROLLOUT_MBIT
        print(f'{labs} labs, {stations} stations, {policies} policies: {at_once:.0f} rollouts at '
              f'once at the peak, {at_once / policies:.2f} a policy')
        for what, (used, most, unit, engine) in sorted(
                rows.items(), key=lambda row: -row[1][0] / row[1][1]):
            print(f'  {what:<20} {used:8.2f} of {most:4.0f} {unit:<6} {used / most:8.1%}  '
                  f'{engine if used > most else ""}'.rstrip())
        sent_tb = at_once / PEAK * ROLLOUT_MBIT * 86_400 * 30 / 8e6
        bill = {'cores': CORE * max(2.0, 2 * rows['processor'][0]), 'database': DATABASE,
                'files': STORED_TB * rows['files of a year'][0], 'sent': SENT_TB * sent_tb}
        print('  a month: ' + ', '.join(f'{what} ${price:,.0f}' for what, price in bill.items())
              + f'; together ${sum(bill.values()):,.0f}')


if __name__ == '__main__':
    main()
