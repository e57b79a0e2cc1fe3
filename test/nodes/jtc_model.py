"""An arm under a joint_trajectory_controller, stepped by hand: how it comes to rest."""

import numpy as np

from arena_robot.drivers.sim.station import SimStation

TICK_S = 0.004
POINT_S = 0.15      # of the points that keep the arm moving
LATE_S = 0.008      # from the press to the controller: a reading's age, and the way of a message
MOVING, STILL = 0.8, 0.02


def cubic(spline, now_s):
    """Return position and velocity on the way to a point at rest, from a moving start."""
    begin_s, time_s, start, velocity, goal = spline
    s = min((now_s - begin_s) / time_s, 1.0)
    way, v = goal - start, velocity * time_s
    q = start + v * s + (3 * way - 2 * v) * s ** 2 + (v - 2 * way) * s ** 3
    dq = (v + 2 * (3 * way - 2 * v) * s + 3 * (v - 2 * way) * s ** 2) / time_s
    return q, dq if s < 1.0 else np.zeros(len(q))


def stopped(robot, joint, speed, stop, from_desired=False):
    """
    Return the time (s) from a press of STOP to rest, and how far (rad) the arm went on.

    The arm follows points as a moving one gets them. A new point begins at the measured position
    and speed, Jazzy's default, or with ``from_desired`` at the last set-point. ``stop`` returns
    point and time for a measured position and speed.
    """
    with SimStation.make('do_not_move', 0, robot=robot.name, cameras=()) as station:
        arm, start = station.world.arm, station.arm.state().q
        set_point, now_s, pressed, spline, steps = (start, np.zeros(7)), 0.0, None, None, 0
        turn = -np.sign(start[joint] or 1.0) * speed * np.eye(7)[joint]
        while True:
            state = station.arm.state()
            begin = set_point if from_desired else (state.q, state.dq)
            if pressed is None and steps % 3 == 0:
                spline = (now_s, POINT_S, *begin, start + turn * (now_s + TICK_S))
            if pressed is None and now_s > 0.6 and abs(state.dq[joint]) > MOVING * speed:
                pressed, until_s = (now_s, state), now_s + LATE_S
            elif pressed is not None and until_s is not None and now_s >= until_s:
                goal, time_s = stop(pressed[1].q, pressed[1].dq, robot)
                spline, until_s = (now_s, time_s, *begin, goal), None
            elif pressed is not None and np.max(np.abs(state.dq)) < STILL:
                return now_s - pressed[0], float(np.max(np.abs(state.q - pressed[1].q)))
            set_point = cubic(spline, now_s)
            arm.follow(*set_point)
            station.step(TICK_S)
            now_s, steps = now_s + TICK_S, steps + 1
