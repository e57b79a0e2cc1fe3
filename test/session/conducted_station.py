"""A station without ROS under a conductor, and somebody who presses its buttons in order."""

from random import Random

from fake_station import FakeArm, FakeCamera, FakeGripper, FakePolicy, LoopClock, Sink

from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import (
    Conflict,
    RecordingError,
    ServerUnavailable,
)
from arena_robot.core.verdict import Extras, Verdict, scored
from arena_robot.drivers.guarded import guarded
from arena_robot.session.arena.local_arena import LocalArena, LocalArenaConfig, PolicyEntry
from arena_robot.session.base import (
    NoRecorder,
    RecordedSteps,
    ScenePerson,
    SessionConfig,
    StationInfo,
)
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.loop.rollout import RolloutConfig
from arena_robot.session.protocol.conductor import Conductor
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import SessionStore

NAMES = ('crimson-7b', 'azure-fast')
TASK = 'put the cube in the bowl'
WHY = 'A closed its gripper on the cube'


class Hall(Sink):
    """Hears everything."""

    def __init__(self):
        super().__init__()
        self.states, self.episodes, self.conductor = [], [], None

    def changed(self):
        if self.conductor and self.conductor.record.state.value not in self.states[-1:]:
            self.states.append(self.conductor.record.state.value)

    def episode(self, job, episode):
        self.episodes.append((job.slot, episode.end if episode else None))


class Recorder(NoRecorder):
    def __init__(self, sessions):
        super().__init__(sessions)
        self.log, self.fail, self.complete, self.gone = [], {}, True, ''
        self.episode, self.recorded = ('', ''), lambda whole: whole

    def lost(self):
        return self.gone

    def ready(self, folder):
        return self.complete

    def start(self, session_id, slot):
        if 'start' in self.fail:
            raise RecordingError(self.fail['start'])
        super().start(session_id, slot)
        self.episode = (session_id, slot.value)
        self.log.append(('start', slot))

    def stop(self, end, detail, steps=0):
        if 'stop' in self.fail:
            raise RecordingError(self.fail['stop'])
        self.log.append(('stop', end))
        return self.recorded(RecordedSteps(*self.episode, steps))


class FlakyArena:
    """A local arena whose line can be cut."""

    def __init__(self, arena):
        self.arena, self.cut, self.cancelled, self.calls = arena, False, False, []

    def __getattr__(self, name):
        def call(*args):
            self.calls.append(name)
            if self.cut:
                raise ServerUnavailable('no route to the arena')
            if name == 'heartbeat' and self.cancelled:
                raise Conflict('timed out')
            return getattr(self.arena, name)(*args)
        return call


class Station:
    def __init__(self, folder, steps=20, extras=None, guarded_robot=None, policy=FakePolicy):
        self.folder, self.clock, self._policy = folder, LoopClock(), policy
        self.clock.now = 1_790_000_000_000_000_000
        self.arm, self.gripper = FakeArm(self.clock), FakeGripper(self.clock)
        self.cameras = {role: FakeCamera(self.clock) for role in ('left', 'right', 'wrist')}
        if guarded_robot:
            self.arm = guarded(FakeArm(self.clock, guarded_robot), guarded_robot, self.clock)
        parts = Parts(self.arm, self.gripper, self.cameras)
        config = SessionConfig(StationInfo('bench', 'panda'), RolloutConfig(max_steps=steps),
                               min_free_gb=0.0, extras=extras or Extras())
        pool = LocalArenaConfig(tuple(PolicyEntry(n, 'x') for n in NAMES))
        self.policies = []
        local = LocalArena(pool, self._connect, folder / 'arena', self.clock, Random(4))
        self.arena = FlakyArena(local)
        self.recorder, self.hall = Recorder(folder / 'sessions'), Hall()
        self.store = SessionStore(folder / 'sessions', self.clock)
        stage = RobotMotions(parts, self.clock, config)
        self.more_checks = []     # what a session node adds to those of the parts
        self.conductor = Conductor(stage, self.arena, self.store, self.recorder, ScenePerson(),
                                   self.hall, self.clock, config, lambda: self.more_checks)
        self.hall.conductor = self.conductor
        self.conductor.open()

    def _connect(self, entry):
        self.policies.append(self._policy(self.clock))
        return self.policies[-1]


def go(conductor, until=State.DONE):
    """Press the buttons of a good session until it stands in a state."""
    buttons = [
        lambda: conductor.check(),
        lambda: conductor.enter_task('ada', TASK),
        lambda: conductor.photograph(),
        lambda: conductor.run(Slot.A),
        lambda: conductor.score(Slot.A, scored(Slot.A, 0.75, 'quick')),
        lambda: (conductor.prepare_reset(), conductor.confirm_reset(), conductor.run(Slot.B)),
        lambda: conductor.score(Slot.B, scored(Slot.B, 0.25)),
        lambda: conductor.judge(Verdict(preference=Preference.A, explanation=WHY)),
        lambda: conductor.submit(),
        lambda: conductor.deliver(),
    ]
    for press in buttons:
        if conductor.record.state is until:
            break
        press()
    assert conductor.record.state is until
    return conductor
