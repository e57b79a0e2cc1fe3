"""A station in a process of its own, to be killed: goes to a state, says so, then waits."""

import sys
import time
from pathlib import Path

from test_conductor import Station, go

from arena_robot.core.episode import Slot
from arena_robot.session.protocol.states import State

RUNNING = {State.RUNNING_A: State.START_PHOTOGRAPHED, State.RUNNING_B: State.RESET}


def main(folder, state):
    station = Station(Path(folder), steps=100_000)
    conductor = station.conductor

    def say():
        sys.stdout.write(f'{conductor.record.state.value}\n')
        sys.stdout.flush()
        time.sleep(60.0)

    if state in RUNNING:
        station.hall.at = {3: conductor.stop} if state is State.RUNNING_B else {}
        go(conductor, RUNNING[state])
        if state is State.RUNNING_B:
            conductor.confirm_reset()
        # Real time passes, so that the journal's ticks are written too.
        station.hall.at = {40: lambda: time.sleep(1.3), 45: say}
        conductor.run(Slot.A if state is State.RUNNING_A else Slot.B)
    station.hall.at = {3: conductor.stop}
    go(conductor, state)
    if state in (State.PREFERENCE, State.REVIEW, State.SCORING_A, State.SCORING_B, State.RESET):
        conductor.draft({'explanation': 'B was fas', 'notes': 'the cable was in the way'})
    say()


if __name__ == '__main__':
    main(sys.argv[1], State(sys.argv[2]))
