"""
A lab's own camera whose pictures come late is refused by the station check.

Its names and topics are not the simulated station's: who shows it asks the session node.
"""

from pathlib import Path

from session_rig import Rig, until
from std_msgs.msg import Float64

from arena_robot.nodes import qos

LIMIT_S, LATE_S = 0.6, 0.9  # the example's 0.2 s and 0.3 s, on a machine that has other work


class LateRig(Rig):
    """A station whose session uses one camera of another package."""

    def __init__(self, processes, folder):
        super().__init__(processes, folder, pool={'a': 'example:frozen', 'b': 'example:frozen'})
        self.late = processes(str(Path(__file__).with_name('late_camera.py')), self.namespace)

    def start(self, name):
        if name == 'session_node':
            self.commands[name] += (
                '-p', f'max_image_age:={LIMIT_S}', '-p', "cameras:=['lab_camera']", '-p',
                "roles:=['left']", '-p', "eyes:=['left']", '-p', 'topic_style:=generic')
        return super().start(name)


def camera_check(desk, ok):
    """Return the newest check of the camera if its outcome is ``ok``; None before it was found."""
    desk.press('check')
    return next((one for one in desk.state().checks
                 if one.name == 'left camera' and one.ok is ok), None)


def test_a_late_camera_is_refused_and_shown_by_its_own_name(processes, tmp_path, observer):
    with LateRig(processes, tmp_path) as rig, rig.desk() as desk:
        delay = qos.publisher(observer, Float64, f'/{rig.namespace}/delay')
        desk.take('page')
        desk.watch_views()
        until(desk, lambda s: camera_check(desk, True), 'the camera is not well', 60.0)
        until(desk, lambda s: desk.frame('left_left'), 'no picture of the named camera')
        assert desk.views() == ('left_left',)

        def set_delay(value_s):
            delay.publish(Float64(data=value_s))
        set_delay(LATE_S)
        until(desk, lambda s: camera_check(desk, False), 'late pictures pass the check')
        said = camera_check(desk, False).detail
        assert f'a step accepts {LIMIT_S * 1e3:.0f} ms (max_image_age)' in said
        assert not desk.state().ready
        set_delay(0.0)
        until(desk, lambda s: camera_check(desk, True), 'punctual pictures do not pass')
