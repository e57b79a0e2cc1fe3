"""
Conversion between ROS messages and core types; functions without state.

Images are converted where they are sent (camera/node.py) and received (remote/camera.py).
Numbers go into messages as ``array.array`` or numpy arrays, because rclpy converts anything else
element by element.
"""

from array import array
from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import (
    Pose,
    PoseStamped,
    Quaternion,
    Transform,
    TransformStamped,
    Vector3,
    WrenchStamped,
)
from sensor_msgs import msg as sensor
from std_msgs.msg import Header

from arena_msgs import msg as arena
from arena_robot.core.action import Action, ActionSpace, Clamp, ClampReason, SafeCommand
from arena_robot.core.config import nearest
from arena_robot.core.errors import ArenaError, DriverError, LateCommand, SafetyError, StaleData
from arena_robot.core.observation import (
    ArmState,
    CameraInfo,
    Floats,
    GripperState,
    ObjectStatus,
    RobotMode,
)
from arena_robot.robots.arms import MOST_JOINTS, ArmLimits, are_of_an_arm
from arena_robot.safety.kinematics import rpy_of

_SECOND_NS = 1_000_000_000
# The arrays of an arm's state that have a number for each joint.
_PER_JOINT = ('q', 'dq', 'tau', 'tau_ext', 'q_desired')


def time_of(stamp_ns: int) -> Time:
    """Return a ROS time for integer nanoseconds."""
    seconds, nanoseconds = divmod(stamp_ns, _SECOND_NS)
    return Time(sec=seconds, nanosec=nanoseconds)


def stamp_of(time: Time) -> int:
    """Return integer nanoseconds of a ROS time."""
    out: int = time.sec * _SECOND_NS + time.nanosec
    return out


def header(stamp_ns: int, frame_id: str) -> Header:
    """Return a header."""
    return Header(stamp=time_of(stamp_ns), frame_id=frame_id)


def doubles(values: Floats | Sequence[float]) -> 'array[float]':
    """Return numbers as the array type of a float64[] field."""
    return array('d', np.asarray(values, dtype=np.float64).tobytes())


def quaternion_of(rpy: Floats) -> Floats:
    """Return x y z w (4,) of fixed-axis roll, pitch, yaw."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy / 2.0), np.sin(rpy / 2.0)
    return np.array([sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy,
                     cr * cp * sy - sr * sp * cy, cr * cp * cy + sr * sp * sy])


def pose_message(pose: Floats) -> Pose:
    """Return a message for ``x y z roll pitch yaw`` (6,)."""
    out = Pose()
    x, y, z = pose[:3].tolist()
    out.position.x, out.position.y, out.position.z = x, y, z
    x, y, z, w = quaternion_of(pose[3:]).tolist()
    out.orientation.x, out.orientation.y, out.orientation.z, out.orientation.w = x, y, z, w
    return out


def transform(stamp_ns: int, parent: str, child: str, place: Sequence[float] | Floats,
              quaternion: Sequence[float] | Floats) -> TransformStamped:
    """Return the pose of a frame in its parent: x y z (m), and a unit quaternion x y z w."""
    (x, y, z), (i, j, k, w) = map(float, place), map(float, quaternion)
    moved = Transform(translation=Vector3(x=x, y=y, z=z), rotation=Quaternion(x=i, y=j, z=k, w=w))
    return TransformStamped(header=header(stamp_ns, parent), child_frame_id=child, transform=moved)


def pose_values(message: Pose) -> Floats:
    """Return ``x y z roll pitch yaw`` (6,); SafetyError when the quaternion is not a rotation."""
    p, o = message.position, message.orientation
    q = np.array([o.x, o.y, o.z, o.w])
    size = float(np.linalg.norm(q))
    if not abs(size - 1.0) < 0.01:
        raise SafetyError(f'orientation must be a unit quaternion, found norm {size:.3g}')
    x, y, z, w = q / size
    rotation = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])
    return np.concatenate([[p.x, p.y, p.z], rpy_of(rotation)])


def joint_state(stamp_ns: int, frame_id: str, names: Sequence[str], q: Floats,
                dq: Floats | None = None, tau: Floats | None = None) -> sensor.JointState:
    """Return a JointState; positions rad, velocities rad/s, efforts N m."""
    out = sensor.JointState(header=header(stamp_ns, frame_id), name=list(names))
    out.position = doubles(q)
    if dq is not None:
        out.velocity = doubles(dq)
    if tau is not None:
        out.effort = doubles(tau)
    return out


def in_order(values: Sequence[float], given: Sequence[str], names: Sequence[str]) -> Floats:
    """
    Return the positions (n,) of the joints ``given`` in the order of ``names``.

    Without names the order is taken as it is. SafetyError names what is missing or unknown.
    """
    positions = np.array(values, dtype=np.float64)
    if len(given) == 0:
        return positions
    if len(given) != len(positions):
        raise SafetyError(f'{len(given)} names but {len(positions)} positions')
    where = dict(zip(given, positions, strict=True))
    missing = [name for name in names if name not in where]
    if missing:
        raise SafetyError(f"no position for joint '{missing[0]}', found {', '.join(where)}")
    return np.array([where[name] for name in names])


def pose_stamped(stamp_ns: int, frame_id: str, pose: Floats) -> PoseStamped:
    """Return a stamped flange pose."""
    return PoseStamped(header=header(stamp_ns, frame_id), pose=pose_message(pose))


def wrench(stamp_ns: int, frame_id: str, force_torque: Floats) -> WrenchStamped:
    """Return a wrench (6,): N, N m."""
    out = WrenchStamped(header=header(stamp_ns, frame_id))
    fx, fy, fz, tx, ty, tz = force_torque.tolist()
    out.wrench.force.x, out.wrench.force.y, out.wrench.force.z = fx, fy, fz
    out.wrench.torque.x, out.wrench.torque.y, out.wrench.torque.z = tx, ty, tz
    return out


def arm_state_message(state: ArmState, stamp_ns: int, frame_id: str,
                      names: Sequence[str]) -> arena.ArmState:
    """Return the arm's own fields; the node adds the fields about commands."""
    out = arena.ArmState(header=header(stamp_ns, frame_id), joint_names=list(names), **{
        name: doubles(getattr(state, name)) for name in _PER_JOINT})
    out.flange_pose = pose_message(state.pose)
    out.cartesian_position = state.pose
    out.robot_mode = int(state.mode)
    out.errors = list(state.errors)
    out.recovery_required = state.recovery_required
    out.control_command_success_rate = float(state.control_success_rate)
    return out


def arm_state(message: arena.ArmState) -> ArmState:
    """
    Return the state in an ArmState message.

    Raises DriverError unless its joints are an arm's, and each array has a number for each.
    """
    names = tuple(message.joint_names)
    if not are_of_an_arm(names):
        raise DriverError(f"arm_state has the joints {', '.join(names) or '(none named)'}; an arm "
                          f'has 1 to {MOST_JOINTS} with different names, one of this package all '
                          'of its own in order')
    joints = {name: np.array(getattr(message, name), np.float64) for name in _PER_JOINT}
    for name, values in joints.items():
        if len(values) != len(names):
            raise DriverError(f'arm_state has {len(values)} numbers of {name} for '
                              f'{len(names)} joints')
    return ArmState(
        stamp_of(message.header.stamp), pose=np.array(message.cartesian_position, np.float64),
        mode=RobotMode(message.robot_mode), errors=tuple(message.errors),
        control_success_rate=message.control_command_success_rate, joint_names=names, **joints)


def gripper_state_message(state: GripperState, stamp_ns: int,
                          frame_id: str) -> arena.GripperState:
    """Return the gripper's own fields; the node adds the age of its command."""
    return arena.GripperState(
        header=header(stamp_ns, frame_id), position=float(state.position),
        width_m=float(state.width_m), requested_position=float(state.requested_position),
        is_moving=bool(state.is_moving), object_status=int(state.object_status),
        fault=int(state.fault), current_a=float(state.current_a))


def gripper_state(message: arena.GripperState) -> GripperState:
    """Return the state in a GripperState message."""
    return GripperState(
        stamp_of(message.header.stamp), message.position, message.width_m,
        message.requested_position, message.is_moving, ObjectStatus(message.object_status),
        message.fault, message.current_a)


def action(message: arena.PolicyAction) -> Action:
    """Return a policy action; SafetyError for an action space that does not exist."""
    known = {space.value: space for space in ActionSpace}
    if message.action_space not in known:
        raise SafetyError(f"unknown action_space '{message.action_space}'."
                          f'{nearest(message.action_space, known)}')
    return Action(np.array(message.values, dtype=np.float64), known[message.action_space])


def action_message(action: Action, stamp_ns: int, frame_id: str,
                   command_id: int) -> arena.PolicyAction:
    """Return the message for a policy action."""
    return arena.PolicyAction(header=header(stamp_ns, frame_id), command_id=command_id,
                              action_space=action.space.value, values=doubles(action.values))


def decision_message(decided: SafeCommand | ArenaError, stamp: Time, frame_id: str,
                     names: Sequence[str]) -> arena.ArmDecision:
    """Return what became of the command stamped ``stamp``: the accepted target, or the error."""
    out = arena.ArmDecision(header=Header(stamp=stamp, frame_id=frame_id),
                            joint_names=list(names))
    if isinstance(decided, SafeCommand):
        out.outcome, out.q = out.TAKEN, doubles(decided.q)
        out.clamps = [clamp_message(clamp) for clamp in decided.clamps]
        return out
    out.outcome = (out.LATE if isinstance(decided, LateCommand | StaleData) else
                   out.REFUSED if isinstance(decided, SafetyError) else out.FAILED)
    out.why = str(decided)
    return out


def decision(message: arena.ArmDecision) -> SafeCommand | ArenaError:
    """Return the accepted target in an ArmDecision message, or the error."""
    if message.outcome == message.TAKEN:
        return SafeCommand(np.array(message.q, dtype=np.float64), tuple(
            Clamp(ClampReason(c.reason), tuple(c.asked), tuple(c.sent), c.detail)
            for c in message.clamps))
    kind = {message.LATE: LateCommand, message.REFUSED: SafetyError}
    return kind.get(message.outcome, DriverError)(message.why)


def clamp_message(clamp: Clamp) -> arena.Clamp:
    """Return one intervention of the safety layer."""
    return arena.Clamp(reason=clamp.reason.value, asked=doubles(clamp.asked),
                       sent=doubles(clamp.sent), detail=clamp.detail)


def limits_message(limits: ArmLimits, robot_type: str, names: Sequence[str], stamp_ns: int,
                   frame_id: str) -> arena.ArmLimits:
    """Return the limits of an arm with the joints ``names``."""
    arrays = {name: doubles(getattr(limits, name))
              for name in ('velocity', 'torque', 'workspace_lower', 'workspace_upper',
                           'elbow_lower', 'elbow_upper')}
    return arena.ArmLimits(
        header=header(stamp_ns, frame_id), robot_type=robot_type, joint_names=list(names),
        joint_lower=doubles(limits.q_min), joint_upper=doubles(limits.q_max),
        max_joint_delta=limits.max_joint_delta, max_lead=limits.max_lead, **arrays)


def camera_info_message(info: CameraInfo, stamp_ns: int, frame_id: str) -> sensor.CameraInfo:
    """Return the geometry of a rectified eye: plumb_bob without distortion."""
    out = sensor.CameraInfo(header=header(stamp_ns, frame_id), width=info.width,
                            height=info.height, distortion_model='plumb_bob')
    out.d = [0.0] * 5
    out.k = np.asarray(info.k, dtype=np.float64).reshape(9)
    out.r = np.eye(3).reshape(9)
    out.p = info.p().reshape(12)
    return out


def camera_info(message: sensor.CameraInfo) -> CameraInfo:
    """Return the geometry in a CameraInfo message."""
    k = np.array(message.k).reshape(3, 3)
    # A camera that nobody calibrated has zeros.
    baseline_m = -float(message.p[3]) / float(k[0, 0]) if k[0, 0] else 0.0
    return CameraInfo(message.width, message.height, k, baseline_m, message.header.frame_id)
