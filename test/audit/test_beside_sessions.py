"""Audits beside a session: marks, following a rollout, standstill, what a page is told."""

import dataclasses

import numpy as np
import pytest

from arena_robot.audit.aggregate import curve_marks
from arena_robot.audit.base import Capabilities, trace_of
from arena_robot.audit.run import ProgressFollower, audit_clip
from arena_robot.cli.episode.replay import curve_line
from arena_robot.core.episode import Preference
from arena_robot.core.errors import DataError
from arena_robot.core.verdict import Verdict
from arena_robot.nodes.session.standstill import Stagnation
from arena_robot.records.audit_file import write_audit
from arena_robot.records.clip import Clip
from arena_robot.records.session_file import DONE, SessionFile, write_session
from arena_robot.reports.audit_agreement import has_audits, session_audit


class Redness:
    """A judge that says how much redder the picture is than the start."""

    name, capabilities = 'redness', Capabilities()

    def __init__(self):
        self.lengths = []

    def progress(self, clip):
        self.lengths.append(len(clip))
        start = clip.start.get('left', clip.frames['left'][0])
        return trace_of(clip, np.array([
            (f[..., 0].mean() - start[..., 0].mean()) / 255 for f in clip.frames['left']]),
            self.name, strict=False)

    def compare(self, pair):
        return None


def red(share):
    return np.full((4, 4, 3), round(255 * share), np.uint8)


def test_a_rollout_is_followed_from_its_start_and_its_newest_pictures():
    judge = Redness()
    follower = ProgressFollower(judge, 'lift the cup')
    values = [0.2, 0.2, 0.6, 0.6, 0.6, 1.0, 0.2, 0.2]
    progress = [follower.add(0.4 * k, {'left': red(v)}) for k, v in enumerate(values)]
    gained = np.array(values) - 0.2
    wanted = [(4 * gained[k] + 2 * gained[max(k - 1, 0)] + gained[max(k - 2, 0)]) / 7
              for k in range(2, 8)]
    assert progress[2:] == pytest.approx(wanted, abs=0.005)
    assert judge.lengths == [1] * 8, 'a long rollout costs no more than a short one'
    assert follower.add(2.8, {'left': red(0.9)}) is None, 'not newer'
    single = ProgressFollower(OneView(), 'lift the cup')
    assert single.add(0.0, {'left': red(0.0)}) is None
    assert 'a picture too few' in single.problem


class OneView(Redness):
    """A judge that cannot say anything."""

    def progress(self, clip):
        return dataclasses.replace(trace_of(clip, np.zeros(99), self.name), detail='a picture '
                                   'too few')


def test_marks_are_quarters_falls_and_standstill():
    times = np.arange(12.0)
    phi = [0, .3, .6, .6, .6, .6, .6, .3, .3, .8, 1, 1]
    marks = curve_marks(times, phi)
    assert marks.milestones == ((1, .25), (2, .5), (9, .75), (10, 1.0))
    assert marks.falls == ((7, 8),)
    assert marks.still == ((3, 6),)
    assert curve_marks(times, phi, calibrated=False).milestones == ()
    assert curve_marks([0.0], [0.5]).still == ()
    line = curve_line(times, phi, 7)
    assert 'progress  30  best  60' in line
    assert len(line) == len(curve_line(times, phi, 11)) == len(curve_line(range(99), [0.5] * 99,
                                                                          98))


def test_a_standstill_ends_only_after_its_time():
    stagnation = Stagnation(10.0)
    assert not any(stagnation.add(t, 0.3 + 0.01 * (t % 2)) for t in range(10))
    assert not stagnation.add(9.5, 0.6), 'it moved on'
    assert not stagnation.add(19.0, 0.61)
    assert stagnation.add(19.5, 0.62)
    stagnation.reset()
    assert not stagnation.add(100.0, 0.62)
    assert '10 s' in stagnation.words


def done(folder, state=DONE):
    write_session(folder, SessionFile('s1', state=state, evaluator='eva', verdict=Verdict(
        preference=Preference.A, valid=True, progress_a=1.0, progress_b=0.2)))
    return folder


def test_a_page_is_told_of_an_audit_only_when_the_session_is_done(tmp_path):
    home = tmp_path / 's1'
    for slot, end in (('A', 0.4), ('B', 0.9)):
        (home / slot).mkdir(parents=True)
        clip = Clip('x', np.arange(4.0), {'left': [red(p) for p in np.linspace(0, end, 4)]})
        write_audit(home / slot, audit_clip(Redness(), clip))
    for state in ('review', 'submitting', 'aborted'):
        with pytest.raises(DataError, match='after it is done'):
            session_audit(done(home, state), 'redness')
    audit = session_audit(done(home), 'redness')
    assert (audit['preference'], audit['audit'], audit['calibrated']) == ('A', 'B', True)
    assert audit['slots']['B']['last'] == pytest.approx(0.9, abs=0.01)
    assert audit['slots']['A']['curve'][0] == [0.0, 0.0]
    assert has_audits(home, 'redness')
    assert not has_audits(home, 'local')
