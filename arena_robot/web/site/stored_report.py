"""A stored report on a policy, read."""

import json

from arena_robot.reports.policy_report.statements import PolicyReport, report_from_json
from arena_robot.server.store.reports import StoredReport


def read_report(stored: StoredReport) -> PolicyReport:
    """Return a stored report; DataError when it cannot be read."""
    return report_from_json(json.loads(stored.content),
                            f'report {stored.number} on {stored.policy}')
