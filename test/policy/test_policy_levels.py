"""Every policy that is wrong on purpose is in a test of the level that it deserves."""

import broken_policies as broken
import suspicious_policies as suspicious
from test_conformance import WRONG
from test_policy_warnings import SUSPICIOUS


def policies(module):
    """Return the policies that a file defines."""
    return {value for value in vars(module).values()
            if isinstance(value, type) and value.__module__ == module.__name__}


def test_all_wrong_policies_are_tested_for_their_level():
    good = {broken.Sound, broken.Exemplary, suspicious.Samples}
    # With limits, with parallel calls, and by its distribution: in tests of their own.
    fail = {case[0] for case in WRONG} | {broken.Slow, broken.SharedScratch, suspicious.Drifts}
    warn = {case[0] for case in SUSPICIOUS}
    assert not fail & warn
    assert policies(broken) | policies(suspicious) == good | fail | warn
    assert len(fail | warn) >= 26
