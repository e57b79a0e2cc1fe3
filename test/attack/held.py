"""Attacks that a test holds: who shams results, and who leans on the server or bends its log."""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tally import Tally

ROOT = Path(__file__).resolve().parents[2]
MOST_S = 900.0

# Rows of the table; B: results that cannot be shammed, C: a server that cannot be leaned on.
ATTACKS: Mapping[str, Sequence[str]] = {
    'B: a recording of something else': ['test/server/test_recordings.py'],
    'B: no rollouts, reruns, own policies': ['test/server/test_shams.py'],
    'B: a policy known by its spec': ['test/server/test_server_blindness.py'],
    'B: free draws, quotas of a day': ['test/server/test_redraws.py'],
    'B: a rival called unsafe': ['test/server/test_unsafe_policies.py'],
    'B: files beside the verdict': [
        'test/server/test_shams.py::test_the_log_names_the_files_of_the_database_though_they_'
        'change_while_it_is_checked', 'test/server/test_uploads.py',
        'test/server/test_late_deliveries.py'],
    'B: a log with other verdicts': ['test/server/test_transparency.py'],
    'C: metadata of tiny objects, gzip': [
        'test/policy/test_openpi.py::test_metadata_of_many_small_objects_is_not_parsed',
        'test/policy/test_openpi.py::test_a_first_frame_that_is_no_metadata',
        'test/policy/test_grpc_services.py::test_a_compressed_request_is_refused_from_its_headers',
        'test/policy/test_grpc_services.py::test_a_compressed_answer_is_refused'],
    'C: arrays and pictures of petabytes': [
        'test/core/test_bounded.py',
        'test/web/test_site_pages.py::test_a_broken_file_of_steps_is_refused'],
    'C: tokens, rates, slow policies': ['test/server/test_leaning.py',
                                        'test/server/test_server_limits.py'],
    'C: a server that stands still': ['test/server/test_ledger.py'],
    'C: addresses that lead inside': ['test/server/test_addresses.py'],
    'C: damaged databases and backups': ['test/server/test_backup.py'],
    'C: random calls, kills, pauses': ['test/server/test_invariants.py'],
}


def held(row: str) -> Tally:
    """Return what became of a row's attacks; a test that fails is a wrong accept."""
    tally, begin_s = Tally(row), time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / 'report.xml'
        try:
            subprocess.run(
                [sys.executable, '-m', 'pytest', '-q', '--timeout=300', f'--junitxml={report}',
                 *ATTACKS[row]], cwd=ROOT, env=os.environ, timeout=MOST_S, check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            cases = list(ET.parse(report).getroot().iter('testcase'))
        except (subprocess.TimeoutExpired, OSError, ET.ParseError) as error:
            tally.note('stuck', error)
            return tally
    for case in cases:
        tally.tried += case.find('skipped') is None
        for kind, column in (('failure', 'wrong'), ('error', 'crashes')):
            if (outcome := case.find(kind)) is not None:
                tally.note('stuck' if 'Timeout' in outcome.get('message', '') else column,
                           f'{case.get("name")}: {outcome.get("message", "")}')
    tally.seconds = time.monotonic() - begin_s
    return tally
