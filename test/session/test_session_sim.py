"""A session on the simulated station, without ROS: real physics, cameras, safety and policies."""

import importlib.util
import json
from random import Random

import numpy as np
import pytest
from fake_station import Sink

from arena_robot.cli.main import main
from arena_robot.core.episode import EndReason, Preference, Slot
from arena_robot.core.verdict import Verdict, scored
from arena_robot.policy.connect import load_policy
from arena_robot.policy.examples.simple import Frozen, RandomWalk
from arena_robot.policy.recorded_skill import read_recording
from arena_robot.robots.arms import RESET_JOINTS
from arena_robot.session.arena.local_arena import LocalArena, LocalArenaConfig, PolicyEntry
from arena_robot.session.base import NoRecorder, ScenePerson, SessionConfig, StationInfo
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.loop.rollout import RolloutConfig
from arena_robot.session.protocol.conductor import Conductor
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import SessionStore

if importlib.util.find_spec('mujoco') is None:
    pytest.skip('mujoco is not installed', allow_module_level=True)

from arena_robot.drivers.guarded import guarded
from arena_robot.drivers.sim.station import SimStation
from arena_robot.trials.skills.station_tasks import address

STEPS = 45
POLICIES = {'walker': RandomWalk, 'sleeper': Frozen}


class Hall(Sink):
    def changed(self):
        pass

    def episode(self, job, episode):
        pass


class SimScene(ScenePerson):
    def __init__(self, station):
        self.station, self.saved, self.moved_mm = station, None, 2.0

    def keep(self):
        self.saved = self.station.save()

    def restore(self):
        self.station.restore(self.saved, moved_mm=self.moved_mm, turned_deg=1.0, seed=5)
        self.station.step(0.2)


@pytest.fixture(scope='module')
def sim():
    with SimStation.make('cube_in_bowl', 1, size=(256, 144), epoch_ns=10**18) as station:
        station.step(0.3)
        yield station


def lead(sim, folder, steps=STEPS, policies=POLICIES):
    config = SessionConfig(StationInfo('sim', 'panda'), RolloutConfig(max_steps=steps),
                           min_free_gb=0.0)
    motions = RobotMotions(Parts(guarded(sim.arm, sim.robot, sim.clock), sim.gripper,
                                 sim.cameras), sim.clock, config)
    pool = LocalArenaConfig(tuple(PolicyEntry(name, name) for name in policies))
    arena = LocalArena(pool, lambda e: policies[e.name](), folder / 'arena', sim.clock, Random(2))
    hall, scene = Hall(), SimScene(sim)
    conductor = Conductor(motions, arena, SessionStore(folder / 'sessions', sim.clock),
                          NoRecorder(folder / 'sessions'), scene, hall, sim.clock, config)
    conductor.open()
    return conductor, hall, scene


def test_a_session_on_the_simulated_station(sim, tmp_path):
    conductor, hall, _ = lead(sim, tmp_path)
    record = conductor.check()
    assert [c['detail'] for c in record.checks if not c['ok']] == []
    conductor.enter_task('ada', sim.instruction)
    conductor.photograph()
    np.testing.assert_allclose(sim.arm.state().q, RESET_JOINTS, atol=0.05)
    ends = [conductor.run(Slot.A)]
    conductor.score(Slot.A, scored(Slot.A, sim.progress()))
    conductor.prepare_reset()
    conductor.confirm_reset()
    assert conductor.record.match > 0.5, conductor.record.matches
    ends.append(conductor.run(Slot.B))
    assert [(e.end, e.steps) for e in ends] == [(EndReason.TIMEOUT, STEPS)] * 2
    conductor.score(Slot.B, scored(Slot.B, sim.progress()))
    conductor.judge(Verdict(preference=Preference.TIE, explanation='neither touched the cube'))
    conductor.submit()
    conductor.deliver()
    assert conductor.record.verified is True
    moved = [np.ptp([s.q_sent for s in steps], axis=0).max()
             for steps in (hall.steps[:STEPS], hall.steps[STEPS:])]
    assert min(moved) < 0.05 < max(moved)
    ages = [s.stamp_ns - min(s.image_stamps_ns.values()) for s in hall.steps]
    assert max(ages) <= 80e6
    assert max(abs(s.loop_s - 1 / 15) for s in hall.steps[1:STEPS]) < 0.001


def test_a_scene_put_back_badly_is_seen(sim, tmp_path):
    conductor, _, scene = lead(sim, tmp_path, steps=3)
    scene.moved_mm = 80.0
    conductor.check()
    conductor.enter_task('ada', sim.instruction)
    conductor.photograph()
    conductor.run(Slot.A)
    conductor.score(Slot.A, scored(Slot.A, 0.0))
    conductor.prepare_reset()
    assert min(match.score for match in conductor.live.values()) < 0.5
    assert conductor.abort('the scene cannot be put back').state is State.ABORTED


def test_a_generated_skill_in_a_blind_session(tmp_path):
    path = tmp_path / 'lamp.json'
    words = ['skill', 'export', 'turn_on_left_lamp', '--first-scene', '4', '--out', str(path)]
    assert main(words) == 0
    motion = read_recording(path).motions[0]
    assert motion.scene == 4
    policies = {'skill': lambda: load_policy(f'skill:{path}'), 'sleeper': Frozen}
    with SimStation.make(address('turn_on_left_lamp'), 4, size=(128, 72), eyes=('left',),
                         epoch_ns=10**18) as station:
        station.step(0.3)
        conductor, _, _ = lead(station, tmp_path, len(motion.actions) + 15, policies)
        conductor.check()
        conductor.enter_task('ada', station.instruction)
        conductor.photograph()
        progress = {}
        for slot in Slot:
            if slot is Slot.B:
                conductor.prepare_reset()
                conductor.confirm_reset()
            assert conductor.run(slot).end is EndReason.TIMEOUT
            progress[slot] = station.progress()
            conductor.score(slot, scored(slot, progress[slot]))
        assert conductor.record.reveal is None
        better = max(progress, key=progress.get)
        conductor.judge(Verdict(preference=Preference[better.name], explanation='the lamp is on'))
        conductor.submit()
        conductor.deliver()
    assert sorted(progress.values()) == [0.0, 1.0]
    shown = conductor.record.reveal
    assert {Slot.A: shown.policy_a, Slot.B: shown.policy_b}[better] == 'skill'


def test_a_wrong_solution_is_no_policy(tmp_path, capsys):
    wrong, path = tmp_path / 'wrong.json', tmp_path / 'none.json'
    assert main(['skill', 'spec', 'turn_on_left_lamp', '--reference']) == 0
    solution = json.loads(capsys.readouterr().out)
    for step in solution['subtasks']:
        step.update(kind='primitive', code='success = True')
    wrong.write_text(json.dumps(solution))
    words = ['skill', 'export', 'turn_on_left_lamp', '--solution', str(wrong), '--out', str(path)]
    assert main(words) == 1
    assert 'no motion is kept' in capsys.readouterr().err
    assert not path.exists()
