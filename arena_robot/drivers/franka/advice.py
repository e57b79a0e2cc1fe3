"""What a person can do about what a Franka, its library or the connection said."""

import re

from arena_robot.core.observation import RobotMode
from arena_robot.drivers.franka.wire import VERSIONS

# A robot in programming mode, or stopped by a safety rule, shows the mode of the user stop.
HINTS = {
    RobotMode.USER_STOPPED: "the user stop is pressed: release it; where it is released, choose "
                            "execution mode in Franka's Desk, and remove safety rules in Watchman",
    RobotMode.GUIDING: 'the arm is guided by hand: let go of its buttons',
    RobotMode.OTHER: "the robot is not ready: open the brakes and activate FCI in Franka's Desk, "
                     'in execution mode',
}
RECOVER = {RobotMode.REFLEX: 'see that nothing touches the arm, then recover it: on the page, by '
           '!recover in `arena session`, or ~/error_recovery of arm_node'}
NO_ANSWER = ('check robot_ip, cable and power, that FCI is active and that no other program uses '
             'the robot; a firewall must let UDP through')
NO_FCI = ("activate FCI in Franka's Desk, in execution mode, and end other programs that use the "
          'robot: it has one client at a time')
SAFETY = 'safety function'
WENT = 'the control process was ended, which stops the robot'
# The first that fits; words of both libraries and of this package.
ADVICE = (
    ('refused', f'check robot_ip; {NO_FCI}'),
    (SAFETY, "choose execution mode in Franka's Desk, and remove safety rules in "
     'Watchman'),
    ('(?i)incompatible|object size|unexpected response', 'the system of the robot and the library '
     'do not fit: check robot_type, use the other backend, or update the robot'),
    ('(?i)clos|reset by peer|net exception|interrupt', NO_FCI),
    ('(?i)time-?d? ?out|unreachable|no route|silent|does not answer', NO_ANSWER),
)


def advised(words: str) -> str:
    """Return what was said when no connection could be made, and what can be done about it."""
    found = next((advice for pattern, advice in ADVICE if re.search(pattern, words)), '')
    return f'{words.rstrip(". ")}; {found}' if found and found not in words else words


def explained(error: str) -> str:
    """Return an error of a motion, with what can be done where its own words do not say it."""
    return advised(error) if SAFETY in error else error


def system_of(version: int) -> str:
    """Return which systems of a robot have a version of the FCI."""
    newest, panda = VERSIONS['fr3'], VERSIONS['panda']
    return ('system 5.9.0 or newer of an FR3' if version == newest else
            'a newer system than any that was tried' if version > newest else
            'a system before 5.9.0 of an FR3' if version > panda else
            'system 4.2.1 of a Panda' if version == panda else
            'a system before 4.2.1 of a Panda')


def misfit(version: int, robot_type: str) -> str:
    """Return what to do when a robot speaks this version of the FCI, '' when it fits."""
    wanted = VERSIONS.get(robot_type, 0)
    if version == wanted:
        return ''
    if version in VERSIONS.values():
        return 'correct robot_type, or update the robot'
    return (f'for {system_of(version)} use backend ros_control with a library of your own, or '
            f'update the robot to {system_of(VERSIONS["fr3"])} or {system_of(VERSIONS["panda"])}')
