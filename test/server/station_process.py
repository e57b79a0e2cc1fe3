"""
A station as a process: simulated robot, real server. Arguments: target, token, evaluator's
token, data, n.

With n = 0 it runs one session whose server goes away: it says ``submitted`` and ``waiting`` and
goes on after a line on standard input, then starts anew from its disk and delivers.
"""

import json
import sys
import time
from pathlib import Path

from rollout_bags import RolloutBags

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.verdict import Verdict, scored
from arena_robot.drivers.guarded import guarded
from arena_robot.drivers.sim.station import SimStation
from arena_robot.records.episode_file import EpisodeFile, write_episode
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.session.arena.sealed import SealedTokens
from arena_robot.session.base import ScenePerson, SessionConfig, StationInfo
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.loop.rollout import RolloutConfig
from arena_robot.session.protocol.conductor import Conductor
from arena_robot.session.protocol.store import SessionStore


class Hall:
    """Listens to inferences and steps, for the recording."""

    def __init__(self, bags):
        self.step, self.chunk = bags.step, bags.chunk

    def changed(self):
        pass

    def episode(self, job, episode):
        pass


class SimScene(ScenePerson):
    def __init__(self, station):
        self.station, self.saved = station, None

    def keep(self):
        self.saved = self.station.save()

    def restore(self):
        self.station.restore(self.saved, moved_mm=2.0, turned_deg=1.0, seed=5)
        self.station.step(0.2)


def main(target, token, evaluator, folder, sessions):
    with SimStation.make('cube_in_bowl', 1, size=(128, 72), epoch_ns=time.time_ns()) as sim:
        sim.step(0.3)
        config = SessionConfig(StationInfo('sim', 'panda'), RolloutConfig(max_steps=30),
                               min_free_gb=0.0)
        stage = RobotMotions(Parts(guarded(sim.arm, sim.robot, sim.clock), sim.gripper,
                                   sim.cameras), sim.clock, config)
        arena = RemoteArena(ServerAddress(target, token), SystemClock(),
                            tokens=SealedTokens(folder / 'arena'))
        arena.sign_in(evaluator)

        def conductor():
            bags = RolloutBags(folder / 'sessions')
            made = Conductor(stage, arena, SessionStore(folder / 'sessions', sim.clock),
                             bags, SimScene(sim), Hall(bags), sim.clock, config)
            made.open()
            return made

        if sessions:
            leader = conductor()
            results = [run(leader, sim, folder, k) for k in range(sessions)]
        else:
            leader, results = offline(conductor, sim, folder)
        sys.stdout.write(json.dumps(results))
        leader.close()
        arena.close()


def pause(word):
    sys.stdout.write(word + '\n')
    sys.stdout.flush()
    sys.stdin.readline()


def offline(conductor, sim, folder):
    first = conductor()
    play(first, sim, folder, 0)
    pause('submitted')
    first.deliver()
    assert 'safe here' in first.problem, first.problem
    first.close()
    pause('waiting')
    again = conductor()
    path, = (folder / 'sessions').glob('*/session.json')
    for _ in range(100):
        again.deliver()
        kept = json.loads(path.read_text())
        if kept['verified']:
            break
        # The connection waits a little before it looks for the server again.
        time.sleep(0.2)
    return again, [{'id': kept['session_id'], 'verified': kept['verified']}]


def run(conductor, sim, folder, number):
    play(conductor, sim, folder, number)
    conductor.deliver()
    while 'are being read' in conductor.problem:
        time.sleep(0.2)
        conductor.deliver()
    assert not conductor.problem, conductor.problem
    return outcome(conductor)


def play(conductor, sim, folder, number):
    conductor.check()
    conductor.enter_task('ada', f'{sim.instruction} {number}')
    conductor.photograph()
    for slot in Slot:
        episode = conductor.run(slot)
        home = folder / 'sessions' / episode.session_id / slot.value
        write_episode(home, EpisodeFile(episode.session_id, slot.value, steps=episode.steps))
        conductor.score(slot, scored(slot, sim.progress()))
        if slot is Slot.A:
            conductor.prepare_reset()
            conductor.confirm_reset()
    conductor.judge(Verdict(preference=Preference.TIE, explanation='a scripted word'))
    conductor.submit()


def outcome(conductor):
    record = conductor.record
    return {'id': record.session_id, 'verified': record.verified, 'state': record.state.value,
            'notice': record.notice,
            'ends': [record.slots[s].end.value for s in Slot]}


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))
