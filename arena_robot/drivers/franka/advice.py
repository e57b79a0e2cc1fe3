"""What a person can do about what a Franka, its library or the connection said."""

import re

from arena_robot.core.observation import RobotMode

HINTS = {
    RobotMode.USER_STOPPED: 'the user stop is pressed: release it',
    RobotMode.GUIDING: 'the arm is guided by hand: let go of its buttons',
    RobotMode.OTHER: "the robot is not ready: open the brakes and activate FCI in Franka's Desk, "
                     'in execution mode',
}
NO_ANSWER = ('check robot_ip, cable and power, that FCI is active and that no other program uses '
             'the robot; a firewall must let UDP through')
# The first that fits; words of both libraries and of this package.
ADVICE = (
    ('refused', "check robot_ip; activate FCI in Franka's Desk, in execution mode"),
    ('(?i)incompatible|object size', 'the system of the robot and the library do not fit: check '
     'robot_type, use the other backend, or update the robot'),
    ('(?i)clos|reset by peer|net exception|interrupt', "activate FCI in Franka's Desk; end other "
     'programs that use the robot, it has one client at a time'),
    ('(?i)time-?d? ?out|unreachable|no route|silent|does not answer', NO_ANSWER),
)


def advised(words: str) -> str:
    """Return what was said when no connection could be made, and what can be done about it."""
    found = next((advice for pattern, advice in ADVICE if re.search(pattern, words)), '')
    return f'{words.rstrip(". ")}; {found}' if found else words
