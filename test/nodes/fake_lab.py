"""
Nodes of other packages as their documentation describes them, over the simulated station.

franka_ros2's broadcasters, a CRISP controller, a joint_trajectory_controller, a position
controller or ros2_robotiq_gripper's action for the fingers, and ZED wrappers. The robot below is
the MuJoCo station. Faults are attributes, so that a test can bring them about.
"""

import argparse
import contextlib
import io
import math
import sys
import threading
import time
from array import array

import numpy as np
from jtc_model import Jtc
from rclpy.node import Node
from rclpy.qos import QoSProfile, QoSReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from arena_robot.cli.main import main as cli
from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import DriverError
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.sim.station import SimStation
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.lib.timeline import RosClock, ShiftedTime
from arena_robot.robots.arms import ROBOTS
from arena_robot.safety.urdf import urdf

KNUCKLE, CLOSED = 'robotiq_85_left_knuckle_joint', 0.7929
BEST_EFFORT = QoSProfile(depth=1, reliability=QoSReliabilityPolicy.BEST_EFFORT)
PERIOD_S, FILTER = 0.01, 0.35
# Where both are off, the wrapper publishes neither eye.
ZED_DEFAULTS = {'pos_tracking.pos_tracking_enabled': True, 'depth.depth_stabilization': 30}
ORDER = (3, 0, 6, 1, 5, 2, 4)    # hardware interfaces come in no particular order
QUARTER, HALF = math.pi / 2, math.pi
# As the makers' descriptions have them: x y z (m) and roll pitch yaw (rad) of each joint, in turn.
UR5E = (
    'shoulder_pan_joint 0 0 .1625 0 0 0', f'shoulder_lift_joint 0 0 0 {QUARTER} 0 0',
    'elbow_joint -.425 0 0 0 0 0', 'wrist_1_joint -.3922 0 .1333 0 0 0',
    f'wrist_2_joint 0 -.0997 0 {QUARTER} 0 0',
    f'wrist_3_joint 0 .0996 0 {QUARTER} {HALF} {HALF}')
XARM7 = (
    'joint1 0 0 .267 0 0 0', f'joint2 0 0 0 {-QUARTER} 0 0',
    f'joint3 0 -.293 0 {QUARTER} 0 0', f'joint4 .0525 0 0 {QUARTER} 0 0',
    f'joint5 .0775 -.3425 0 {QUARTER} 0 0', f'joint6 0 0 0 {QUARTER} 0 0',
    f'joint7 .076 .097 0 {-QUARTER} 0 0')
# The name of the controller, the joints, the fixed links before and behind them.
MAKERS = {
    'ur_robot_driver': ('scaled_joint_trajectory_controller', UR5E, (
        'base_link 0 0 0 0 0 0', f'base_link_inertia 0 0 0 0 0 {HALF}'), (
        f'flange 0 0 0 0 {-QUARTER} {-QUARTER}', f'tool0 0 0 0 {QUARTER} 0 {QUARTER}')),
    'xarm_ros2': ('xarm7_traj_controller', XARM7, ('link_base 0 0 0 0 0 0',),
                  ('link_eef 0 0 0 0 0 0',))}


def description(joints, before, behind):
    """Return a URDF that hangs on world, as both makers' do."""
    parent, lines = 'world', ['<robot name="arm"><link name="world"/>']
    for text in (*before, *joints, *behind):
        name, x, y, z, roll, pitch, yaw = text.split()
        link, kind = (f'{name}_link', 'revolute') if text in joints else (name, 'fixed')
        lines.append(
            f'<link name="{link}"/><joint name="{name}" type="{kind}"><parent link="{parent}"/>'
            f'<child link="{link}"/><origin xyz="{x} {y} {z}" rpy="{roll} {pitch} {yaw}"/>'
            '<axis xyz="0 0 1"/><limit lower="-6.28" upper="6.28" velocity="3.14" effort="50"/>'
            '</joint>')
        parent = link
    return '\n'.join([*lines, '</robot>'])


def embodiment(maker, folder):
    """Write an embodiment that is proposed from the maker's URDF; return its path and the URDF."""
    text = description(*MAKERS[maker][1:])
    model = folder / f'{maker}.urdf'
    model.write_text(text, encoding='utf-8')
    tool = MAKERS[maker][-1][-1].split()[0]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli(['embodiment', 'propose', str(model), '--tool', tool]) == 0
    model.with_suffix('.yaml').write_text(out.getvalue(), encoding='utf-8')
    return model.with_suffix('.yaml'), text


class Lab:
    """
    All vendor nodes of one robot in a namespace, spinning in ``spin``.

    ``controller`` is crisp, joint_trajectory_controller or forward, or '' where no node is an
    arm's; ``from_desired`` is joint_trajectory_controller's interpolate_from_desired_state.
    ``gripper`` is topic, ParallelGripperCommand, GripperCommand or ''; ``images`` raw, jpeg, both
    or ''. ``robot`` may be an embodiment's file; the URDF ``description`` is then that of its
    maker's package. ``jtc`` is the name of the joint_trajectory_controller.
    """

    def __init__(self, spin, namespace, controller='crisp', gripper='topic', images='jpeg',
                 robot='fr3', size=(320, 180), prefix='', task='cube_in_bowl',
                 from_desired=False, description='', jtc='joint_trajectory_controller'):
        self.spin, self.namespace, self.images = spin, namespace, images
        self.jtc_name, self.described = jtc, description or urdf(robot, prefix)
        roles = ('left', 'right', 'wrist') if images else ()
        self.clock = clock = RosClock(Node('clock', context=spin.context).get_clock(),
                                      spin.context)
        self.sim = SimStation.make(task, robot=robot, cameras=roles, size=size,
                                   epoch_ns=clock.now_ns(), command_timeout_s=1e6)
        self.timeline = ShiftedTime(self.sim.clock, clock)
        self.sim.world.on_tick.append(self.timeline.tick)
        self.names = self.sim.robot.joint_names(prefix)
        self.frozen = self.silent = self.deaf = self.degrees = False
        self.clock_off_ns = 0
        self.target = self.filtered = None
        self.jtc = Jtc(self.names, PERIOD_S, from_desired)
        self.received = 0
        self.over = threading.Event()
        self.threads = []
        self.nodes = []
        self.controller = controller
        if controller:
            self._with_arm(controller, prefix)
        self.gripper_node = self.node('robotiq_gripper_controller') if gripper else None
        if gripper == 'topic':
            self.gripper_node.create_subscription(
                Float64MultiArray, 'gripper_position_controller/commands',
                lambda m: self._grip(m.data[0]), QoSProfile(depth=1))
        elif gripper:
            self._with_action(gripper)
        if gripper:
            self.node('robotiq_activation_controller').create_service(
                Trigger, '~/reactivate_gripper', self._reactivate)
        self.zed_nodes = {}
        self.eyes = {role: self._zed(role) for role in roles}

    def node(self, name, space=''):
        made = Listening(name, namespace=f'{self.namespace}/{space}'.strip('/'),
                         context=self.spin.context)
        self.nodes.append(made)
        return made

    def open(self):
        self.sim.open()
        self.sim.world.start()
        self.filtered = self.sim.arm.state().q
        for node in self.nodes:
            self.spin.add(node, threads=2 if node is self.gripper_node else 1)
        if self.controller:
            self._begin(self._control)
        for role in self.eyes:
            self._begin(self._film, role)
        return self

    def close(self):
        self.over.set()
        for thread in self.threads:
            thread.join(5.0)
        self.sim.close()

    def __enter__(self):
        return self.open()

    def __exit__(self, *_):
        self.close()

    def _begin(self, work, *args):
        self.threads.append(threading.Thread(target=work, args=args, daemon=True))
        self.threads[-1].start()

    # -- controllers -----------------------------------------------------------------------

    def _with_arm(self, controller, prefix):
        self._state = self.node('joint_state_broadcaster')
        self._joints = self._state.create_publisher(JointState, 'joint_states', 10)
        described = self.node('robot_state_publisher')
        self._description = qos.publisher(described, String, 'robot_description', qos.LATCHED)
        self._description.publish(String(data=self.described))
        self._measured = self._torques = None
        if self.sim.robot.name in ROBOTS:
            franka = self.node('franka_robot_state_broadcaster')
            self._measured = franka.create_publisher(JointState, '~/measured_joint_states',
                                                     BEST_EFFORT)
            self._torques = franka.create_publisher(JointState, '~/external_joint_torques',
                                                    BEST_EFFORT)
        getattr(self, f'_with_{controller}')()

    def _with_crisp(self):
        """Listen as crisp_controllers does: by index, nothing while there are two publishers."""
        node = self.node('joint_impedance_controller')

        def take(message):
            self.received += 1
            if not self.deaf and node.count_publishers(subscription.topic_name) == 1:
                self.target = np.array(message.position)
        subscription = node.create_subscription(JointState, 'target_joint', take,
                                                QoSProfile(depth=1))

    def _with_joint_trajectory_controller(self):
        self.jtc_node = node = self.node(self.jtc_name)
        for name, value in {'command_interfaces': ['position'], 'joints': self.names,
                            'interpolation_method': 'splines', 'update_rate': 100,
                            'interpolate_from_desired_state': self.jtc.from_desired}.items():
            node.declare_parameter(name, value)

        def take(message):
            self.received += 1
            if not self.deaf:
                self.jtc.take(message, self._now_s())
        node.create_subscription(JointTrajectory, '~/joint_trajectory', take,
                                 QoSProfile(depth=1))

    def _now_s(self):
        """Return the controllers' time in seconds."""
        return self.clock.now_ns() * 1e-9

    def _with_forward(self):
        self.node('forward_position_controller').create_subscription(
            Float64MultiArray, '~/commands', lambda m: None, QoSProfile(depth=1))

    def _desired(self):
        """Return what the controller asks of the robot now; None before the first target."""
        if self.target is not None:
            self.filtered = self.filtered + FILTER * (self.target - self.filtered)
            return self.filtered
        state = self.sim.arm.state(5.0)
        return self.jtc.update(self._now_s(), state.q, state.dq)

    def _control(self):
        due_s = time.monotonic()
        while not self.over.is_set():
            wanted = self._desired()
            if isinstance(wanted, tuple):
                self._follow(*wanted[:2])
            elif wanted is not None:
                with contextlib.suppress(DriverError):    # in a reflex it follows nobody
                    self.sim.arm.command(ArmCommand(wanted, 0))
            if not self.silent:
                self._broadcast()
            due_s = max(due_s + PERIOD_S, time.monotonic())
            self.over.wait(max(due_s - time.monotonic(), 0.0))

    def _follow(self, q, dq):
        """Have the stiff position controller follow a set-point."""
        world = self.sim.world
        with world.ticked:
            if world.arm.mode in (RobotMode.IDLE, RobotMode.MOVE):
                world.arm.follow(q, dq)

    def _broadcast(self):
        arm, gripper = self.sim.arm.state(5.0), self.sim.gripper.state(5.0)
        if not self.frozen:
            self.stamp_ns = self.timeline.to_ros(arm.stamp_ns) + self.clock_off_ns
        q = np.degrees(arm.q) if self.degrees else arm.q
        order = [i for i in ORDER if i < len(self.names)]
        names = [*(self.names[i] for i in order), KNUCKLE]
        self._joints.publish(convert.joint_state(
            self.stamp_ns, '', names, np.append(q[order], CLOSED * gripper.position),
            np.append(arm.dq[order], 0.0), np.append(arm.tau[order], 0.0)))
        if self._measured is None:
            return
        self._measured.publish(convert.joint_state(self.stamp_ns, '', self.names, q))
        self._torques.publish(convert.joint_state(self.stamp_ns, '', self.names, np.empty(0), None,
                                                  arm.tau_ext))

    # -- gripper ---------------------------------------------------------------------------

    def _grip(self, joint_rad):
        self.sim.gripper.command(GripperCommand(min(max(joint_rad / CLOSED, 0.0), 1.0),
                                                0, 0.5, 0.0))

    def _reactivate(self, request, response):
        self.sim.gripper.activate()
        response.success = True
        return response

    def _with_action(self, kind):
        from control_msgs import action
        from rclpy.action import ActionServer, CancelResponse
        from rclpy.callback_groups import ReentrantCallbackGroup
        action_class = getattr(action, kind)

        def execute(goal):
            command = goal.request.command
            at = command.position[0] if kind.startswith('Parallel') else command.position
            self._grip(at)
            end_s = time.monotonic() + 2.0
            state = self.sim.gripper.state(5.0)
            while time.monotonic() < end_s and not goal.is_cancel_requested and (
                    abs(state.position * CLOSED - at) > 0.02):
                time.sleep(0.02)
                state = self.sim.gripper.state(5.0)
            result = action_class.Result()
            result.reached_goal = abs(state.position * CLOSED - at) <= 0.02
            result.stalled = not result.reached_goal
            goal.canceled() if goal.is_cancel_requested else goal.succeed()
            return result
        self._server = ActionServer(
            self.gripper_node, action_class, '~/gripper_cmd', execute,
            callback_group=ReentrantCallbackGroup(),
            handle_accepted_callback=lambda goal: goal.execute(),
            cancel_callback=lambda goal: CancelResponse.ACCEPT)

    # -- cameras ---------------------------------------------------------------------------

    def _zed(self, role):
        self.zed_nodes[role] = node = self.node('zed_node', f'zed_{role}')
        for name, value in ZED_DEFAULTS.items():
            node.declare_parameter(name, value)
        made = {}
        for eye in ('left', 'right'):
            image = f'~/{eye}/color/rect/image'
            made[eye] = (
                node.create_publisher(Image, image, 10) if self.images != 'jpeg' else None,
                node.create_publisher(CompressedImage, f'{image}/compressed', 10)
                if self.images != 'raw' else None,
                node.create_publisher(CameraInfo, f'~/{eye}/color/rect/camera_info', 10))
        return made

    def _film(self, role):
        camera = self.sim.cameras[role]
        infos = camera.info()
        while not self.over.is_set():
            frame = camera.wait_frame(2.0)
            stamp_ns = self.timeline.to_ros(frame.left.stamp_ns)
            if not any(self.zed_nodes[role].get_parameter(name).value for name in ZED_DEFAULTS):
                continue    # zed-ros2-wrapper #423
            for eye, image in (('left', frame.left), ('right', frame.right)):
                raw, jpeg, info = self.eyes[role][eye]
                header = convert.header(stamp_ns, f'zed_{role}_{eye}_camera_frame_optical')
                info.publish(convert.camera_info_message(infos[eye], stamp_ns, header.frame_id))
                if jpeg is not None:
                    jpeg.publish(CompressedImage(
                        header=header, format='bgra8; jpeg compressed bgr8',
                        data=array('B', to_jpeg(image.pixels, 90))))
                if raw is not None:
                    raw.publish(bgra(image.pixels, header))


def bgra(pixels, header):
    """Return RGB pixels as the ZED wrapper sends them."""
    height, width = pixels.shape[:2]
    whole = np.dstack([pixels[:, :, ::-1], np.full((height, width), 255, np.uint8)])
    return Image(header=header, height=height, width=width, encoding='bgra8', step=4 * width,
                 data=array('B', whole.tobytes()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (('namespace', ''), ('controller', 'crisp'), ('gripper', 'topic'),
                          ('images', 'jpeg'), ('robot', 'fr3'), ('task', 'cube_in_bowl')):
        parser.add_argument(f'--{name}', default=default)
    parser.add_argument('--size', type=int, nargs=2, default=(320, 180))
    parser.add_argument('--maker', choices=MAKERS, help='whose controller and description')
    given = vars(parser.parse_args())
    if maker := given.pop('maker'):
        given |= {'jtc': MAKERS[maker][0], 'description': description(*MAKERS[maker][1:])}
    sys.setswitchinterval(0.0005)
    with Spin() as spin:
        spin.catch_signals()
        with Lab(spin, **{**given, 'size': tuple(given['size'])}):
            spin.wait()


if __name__ == '__main__':
    main()
