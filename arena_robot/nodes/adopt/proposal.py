"""A station file for a graph: its arm, gripper and cameras, what is missing and what to do."""

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import DEPTH, EYES, ROLES
from arena_robot.nodes.adopt.graph import JOINTS, TRAJECTORIES, TRAJECTORY, FoundGraph, FoundTopic
from arena_robot.nodes.lib.images import COMPRESSED, RAW, TRANSPORTS, eyes_of, topic_of
from arena_robot.nodes.lib.part_params import COMMAND_TOPICS, CRISP, JTC, PARALLEL, SINGLE, TOPIC
from arena_robot.nodes.remote.camera import NEITHER_EYE
from arena_robot.nodes.vendor.controllers import FORWARD, WAY_OUT, jtc_problem
from arena_robot.nodes.vendor.franka import NO_MESSAGES, imported
from arena_robot.recording.episode.views import IMAGE, JPEG
from arena_robot.robots.arms import DOF, ROBOTS
from arena_robot.robots.cameras import STYLES, topics_of
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.embodiments import PROPOSED
from arena_robot.safety.models import proposed_arm

NOT_RECORDED = ('/parameter_events', '.*/replay/.*', '/replay/.*', '.*/depth/.*',
                '.*/point_cloud/.*', '.*/disparity/.*', '.*/confidence/.*')
HEAD = """\
# Written by `arena station --adopt` from a running graph. Check every line, then start it with
#
#   arena station --config {path} --session --console
#
# What each line is for: docs/in_your_stack.md.
"""
HINTS = {'wrist': ('wrist', 'hand', 'gripper'), 'left': ('left', 'ext1', 'exterior_1'),
         'right': ('right', 'ext2', 'exterior_2')}
PART_OF_CAMERA = '/(left|right|rgb|depth|aligned_depth_to_.*|infra[12])$'
LOW_HZ, HIGH_HZ = 14.5, 31.0    # of pictures, for a session at 15 Hz and a camera of up to 30
SWITCH_ON = ('set video.publish_left_right: true in the parameters of the ZED wrapper (it is off '
             'by default)')
JOINT = re.compile(rf"(?:(.+)_)?({'|'.join(ROBOTS)})_joint([1-{DOF}])")
JOINT_NAMES = ' or '.join(f'{names[0]} to {DOF}' for names in (
    ROBOTS[name].joint_names() for name in sorted(ROBOTS)))
TRIGGER = 'std_srvs/srv/Trigger'
BROADCASTER = 'franka_robot_state_broadcaster'
FINGER = 'finger_joint1'
GRIPPER_TOPIC = 'gripper_position_controller/commands'
# Where a gripper is mounted, along z, in the descriptions of Universal Robots and of UFACTORY.
TOOLS = ('tool0', 'link_eef')
SLOW_HZ = 50.0    # of joint states; a joint_state_publisher has 30, a broadcaster 100 or more


@dataclass
class FoundPart:
    """
    Parameters of a part's node, and sentences: what was found, to be checked, missing.

    ``files`` are texts by the name of a file beside the station's that the parameters need.
    """

    values: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def find_arm(graph: FoundGraph, folder: Path = Path()) -> FoundPart:
    """Return the parameters of arm_node; an embodiment is to be written to ``folder``."""
    out = FoundPart()
    states = [(topic, names) for topic in graph.of(JOINTS) if (names := _arm_of(topic))]
    if not states and (other := _other_arm(graph, folder, out)):
        states = [other]
    if not states:
        out.missing.append(
            f'no JointState topic has the joints {JOINT_NAMES}; activate the '
            'joint_state_broadcaster, and look in the right ROS domain and --namespace. An arm '
            "behind DROID's server on the NUC has no topics: config/stations/droid_nuc.yaml")
        return out
    topic, (robot, prefix) = min(graph.near(states, lambda state: state[0].name),
                                 key=lambda state: _preferred(state[0].name))
    options: dict[str, Any] = {'joint_states': graph.relative(topic.name)}
    out.values = {'robot_type': robot, 'arm_prefix': prefix, 'backend': 'ros_control',
                  'ros_control': options}
    out.found.append(f"{robot} on {topic.name} at {topic.rate_hz or 0.0:.0f} Hz, from "
                     f"{', '.join(topic.publishers)}")
    if (topic.rate_hz or 0.0) < SLOW_HZ:
        out.remarks.append(
            f'{topic.name} comes at {topic.rate_hz or 0.0:.0f} Hz: a reading is up to '
            f'{1e3 / max(topic.rate_hz or 0.1, 0.1):.0f} ms old; read the joint_state_broadcaster '
            'itself, not a joint_state_publisher of 30 Hz')
    _find_controller(graph, options, out)
    if robot in ROBOTS:
        _find_broadcaster(graph, options, out)
    return out


def _other_arm(graph: FoundGraph, folder: Path,
               out: FoundPart) -> tuple[FoundTopic, tuple[str, str]] | None:
    """
    Return the joint states, robot_type and prefix of an arm that is no row of this package.

    Its joints are a joint_trajectory_controller's, its embodiment is proposed from their URDF.
    """
    for who in graph.near(sorted(graph.controllers)):
        values = graph.controllers[who]
        joints = tuple(values.get('joints') or ())
        heard = [topic for topic in graph.of(JOINTS)
                 if topic.publishers and joints and set(joints) <= set(topic.joints)]
        texts = [text for text in graph.descriptions
                 if all(f'name="{joint}"' in text for joint in joints)]
        if not heard or not texts:
            continue
        try:
            name, tool = _embodiment(texts[0], joints, out)
        except (ConfigError, ElementTree.ParseError) as error:
            out.missing.append(f'no embodiment can be made of the URDF with the joints of {who}: '
                               f'{error}')
            return None
        path = folder / f'{name}.yaml'
        out.remarks.append(
            f'{path} is proposed from the URDF for the joints of {who}. Assumed are the '
            f'accelerations, the reset pose, a workspace of 1 m, a Robotiq at {tool}, and what '
            f'else the URDF does not say: correct it, then arena embodiment check {path}')
        near = graph.near(heard, attrgetter('name'))
        return min(near, key=lambda topic: _preferred(topic.name)), (str(path), '')
    return None


def _embodiment(text: str, joints: tuple[str, ...], out: FoundPart) -> tuple[str, str]:
    """Put a URDF and the embodiment of its arm into ``out``; return its name and its tool."""
    root = ElementTree.fromstring(text)
    name = re.sub(r'\W+', '_', root.get('name', '')) or 'arm'
    rows = [(joint.get('name'), joint.get('type'), *(
        element.get('link', '') for end in ('parent', 'child') for element in joint.iter(end)))
        for joint in root.iter('joint') if joint.find('parent') is not None]
    reached = [str(child) for joint, _, _, child in rows if joint == joints[-1]]
    for link in reached:
        reached += [str(child) for _, kind, parent, child in rows
                    if kind == 'fixed' and parent == link and child not in reached]
    if not reached:
        raise ConfigError(f'it has no joint {joints[-1]}')
    tool = next((link for link in reached if link.endswith(TOOLS)), reached[0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f'{name}.urdf'
        path.write_text(text, encoding='utf-8')
        arm = proposed_arm(path, tool=tool)
    if set(arm['joints']) != set(joints):
        raise ConfigError(f"its chain to {tool} has the joints {', '.join(arm['joints'])}")
    content = {'name': name, 'title': name,
               'arms': {'arm': arm | {'model': f'{name}.urdf'}}, **PROPOSED}
    out.files = {f'{name}.urdf': text, f'{name}.yaml': yaml.safe_dump(
        content, sort_keys=False, default_flow_style=None, width=98)}
    return name, tool


def _preferred(name: str) -> tuple[bool, int, str]:
    """Order: the common name first, a broadcaster's topics after it."""
    return (not name.endswith('/joint_states'), name.count('/'), name)


def _arm_of(topic: FoundTopic) -> tuple[str, str] | None:
    """Return robot_type and prefix of the arm whose seven joints a topic has."""
    arms: dict[tuple[str, str], set[str]] = {}
    for name in topic.joints:
        if match := JOINT.fullmatch(name):
            arms.setdefault((match[2], match[1] or ''), set()).add(match[3])
    whole = sorted(arm for arm, numbers in arms.items() if len(numbers) == DOF)
    return whole[0] if whole and topic.publishers else None


def _find_controller(graph: FoundGraph, options: dict[str, Any], out: FoundPart) -> None:
    heard = [topic for _, topic in sorted(graph.topics.items()) if topic.subscribers]
    crisp = [t for t in heard if t.kind == JOINTS and t.name.endswith('/target_joint')
             and not any('arm_node' in who for who in t.subscribers)]
    jtc = [t for t in heard if t.kind == TRAJECTORY and t.name.endswith(TRAJECTORIES)
           and not any('arm_node' in who for who in t.subscribers)]
    chosen = graph.near([*((CRISP, t) for t in crisp), *((JTC, t) for t in jtc)],
                        lambda way: way[1].name)
    if not chosen:
        _no_controller(heard, out)
        return
    kind, topic = chosen[0]
    options |= {'controller': kind, 'command_topic': graph.relative(topic.name)}
    out.found.append(f"{kind} takes {topic.name} ({', '.join(topic.subscribers)})")
    if graph.relative(topic.name) == topic.name:
        out.remarks.append(f'{topic.name} is not in /{graph.namespace.strip("/")}: make sure that '
                           "it moves this station's arm")
    if kind == JTC:
        _look_at_jtc(graph, topic, out)
    if len(chosen) > 1:
        others = ', '.join(t.name for _, t in chosen[1:])
        out.remarks.append(f'{others} can command an arm too; command_topic must be the one of '
                           'the active controller (`ros2 control list_controllers`)')
    if topic.publishers:
        out.missing.append(f"{topic.name} is published by {', '.join(topic.publishers)}; end that "
                           'before a session: a command topic has one sender')


def _look_at_jtc(graph: FoundGraph, topic: FoundTopic, out: FoundPart) -> None:
    """Say what kind of a joint_trajectory_controller takes a topic, and whether it can be used."""
    values = graph.controllers.get(topic.subscribers[0])
    if values is None:
        out.remarks.append(f'{topic.subscribers[0]} does not tell its parameters: '
                           'interpolation_method must be splines, update_rate 100 Hz or more; '
                           f'else {WAY_OUT}')
        return
    robot = ROBOTS.get(out.values['robot_type'])    # another's joints are the controller's
    if words := jtc_problem(values, robot.joint_names(
            out.values['arm_prefix']) if robot else ()):
        out.missing.append(f'{topic.subscribers[0]}: {words}')
    begins = ('the last command' if values['interpolate_from_desired_state'] else
              'the measured state')
    out.found.append(
        f"{topic.subscribers[0]} commands {', '.join(values['command_interfaces'] or ())}; by "
        f'itself it would begin at {begins}, so it gets curves that begin in the past')


def _no_controller(heard: list[FoundTopic], out: FoundPart) -> None:
    bare = [t for t in heard if t.kind == FORWARD and t.name.endswith('/commands')
            and 'gripper' not in t.name]
    if bare:
        out.missing.append(
            f"{bare[0].name} ({', '.join(bare[0].subscribers)}) passes positions on without "
            'interpolation: steps at 15 Hz end in a reflex; activate joint_trajectory_controller '
            'or a CRISP controller instead')
        return
    out.missing.append(
        f'no controller listens to {COMMAND_TOPICS[CRISP]} (CRISP) or to …/joint_trajectory '
        '(joint_trajectory_controller); load and activate one')


def _find_broadcaster(graph: FoundGraph, options: dict[str, Any], out: FoundPart) -> None:
    tail = '/external_joint_torques'
    names = graph.near(t.name.removesuffix(tail) for t in graph.of(JOINTS)
                       if t.name.endswith(f'{BROADCASTER}{tail}') and t.publishers)
    if not names:
        out.remarks.append(f'no {BROADCASTER}: external torques, mode and errors of the robot '
                           'are not known; an arm that is stopped is seen by its joints only')
        return
    options['broadcaster'] = graph.relative(names[0])
    recovery = graph.near(name for name, kind in graph.actions.items()
                          if kind == 'franka_msgs/action/ErrorRecovery')
    if recovery:
        options['error_recovery'] = graph.relative(recovery[0])
    out.found.append(f'{names[0]} for torques, mode and errors')
    if imported('franka_msgs.msg', 'FrankaRobotState') is None:
        out.remarks.append(NO_MESSAGES)


def find_gripper(graph: FoundGraph) -> FoundPart:
    """Return the parameters of gripper_node."""
    out = FoundPart()
    states = [(t, joint) for t in graph.of(JOINTS) for joint in t.joints
              if joint.endswith((ROBOTIQ_2F85.joint, FINGER)) and t.publishers]
    if not states:
        out.missing.append(f'no JointState topic has {ROBOTIQ_2F85.joint}; start '
                           'ros2_robotiq_gripper')
        return out
    topic, joint = min(graph.near(states, lambda state: state[0].name),
                       key=lambda state: (state[1].endswith(FINGER), state[0].name))
    if joint.endswith(FINGER):
        out.missing.append(f'{joint} is a Franka Hand; policies of DROID know the Robotiq 2F-85 '
                           'only: write a driver for it (docs/extending.md)')
        return out
    prefix = joint.removesuffix(ROBOTIQ_2F85.joint).removesuffix('_')
    options: dict[str, Any] = {'joint_states': graph.relative(topic.name)}
    out.values = {'arm_prefix': prefix, 'backend': 'ros_control', 'ros_control': options}
    _find_grip(graph, options, out)
    services = graph.near(name for name, kind in graph.services.items()
                          if kind == TRIGGER and name.endswith('/reactivate_gripper')
                          and 'gripper_node' not in name)
    options['reactivate'] = graph.relative(services[0]) if services else ''
    return out


def _find_grip(graph: FoundGraph, options: dict[str, Any], out: FoundPart) -> None:
    for command in (PARALLEL, SINGLE):
        names = sorted(graph.near(
            name for name, kind in graph.actions.items()
            if kind == f'control_msgs/action/{command}' and 'gripper_node' not in name))
        if names:
            options |= {'command': command, 'name': graph.relative(names[0])}
            out.found.append(f'gripper by the action {names[0]} ({command})')
            if imported('control_msgs.action', command) is None:
                out.missing.append('control_msgs is not installed here: apt install '
                                   'ros-jazzy-control-msgs')
            return
    topics = [t for t in graph.of(FORWARD) if t.subscribers and 'gripper' in t.name
              and not any('gripper_node' in who for who in t.subscribers)]
    topics = graph.near(topics, attrgetter('name'))
    if topics:
        options |= {'command': TOPIC, 'name': graph.relative(topics[0].name)}
        out.found.append(f'gripper by the topic {topics[0].name}')
        return
    out.missing.append('no action of the type ParallelGripperCommand or GripperCommand, and no '
                       f'{GRIPPER_TOPIC}: activate the gripper controller')


@dataclass(frozen=True)
class FoundCamera:
    """A camera's node, the style of its topic names, and its eyes with their transports."""

    node: str
    style: str
    transports: dict[str, frozenset[str]]


def find_cameras(graph: FoundGraph) -> FoundPart:
    """Return the parameters of session_node about cameras."""
    out = FoundPart()
    cameras = _cameras(graph)
    if not cameras:
        out.missing.append(_none(graph))
        return out
    style = max((c.style for c in cameras), key=lambda s: sum(c.style == s for c in cameras))
    cameras = sorted(cameras, key=lambda c: (c.style != style, graph.relative(c.node) == c.node))[
        :len(ROLES)]
    roles = _roles(cameras, out)
    eyes = _eyes(cameras, out)
    every = frozenset.intersection(*(c.transports[eye] for c in cameras for eye in eyes
                                     if eye in c.transports))
    transport = COMPRESSED if COMPRESSED in every else RAW
    if transport == RAW:
        out.remarks.append('raw images: install image_transport_plugins where the cameras run '
                           '(apt install ros-jazzy-image-transport-plugins) for …/compressed; raw '
                           'images of 720p from six eyes are 332 MB/s')
    out.values = {'cameras': [graph.relative(c.node) for c in cameras], 'roles': roles,
                  'eyes': list(eyes), 'topic_style': style, 'image_transport': transport}
    if any(c.style != style for c in cameras):
        out.values['topic_styles'] = [c.style for c in cameras]
    if len(cameras) < len(ROLES):
        out.remarks.append(f'{len(cameras)} of {len(ROLES)} cameras; a policy that needs another '
                           'view is not assigned to this station')
    _rates(graph, cameras, eyes, transport, out)
    return out


def _cameras(graph: FoundGraph) -> list[FoundCamera]:
    transports: dict[tuple[str, str], dict[str, set[str]]] = {}
    for style in STYLES:
        for eye in eyes_of(style):
            tail = topics_of(style, eye)[0].removeprefix('~')
            for topic in (*graph.of(IMAGE), *graph.of(JPEG)):
                for transport in (RAW, COMPRESSED):
                    end = f'{tail}{TRANSPORTS[transport]}'
                    if topic.name.endswith(end) and topic.publishers:
                        node = topic.name.removesuffix(end)
                        eyes = transports.setdefault((node, style), {})
                        eyes.setdefault(eye, set()).add(transport)
    # A RealSense whose depth is not aligned to its colours is a camera with one eye.
    deep = {node for (node, style), eyes in transports.items() if DEPTH in eyes}
    return [FoundCamera(node, style, {eye: frozenset(kinds) for eye, kinds in eyes.items()})
            for (node, style), eyes in sorted(transports.items())
            # left/image_raw ends with image_raw too: it is not a camera called …/left
            if not (style == 'mono' and (re.search(PART_OF_CAMERA, node)
                                         or node.rpartition('/')[0] in deep))
            and (node in deep or DEPTH not in eyes_of(style))]


def _roles(cameras: list[FoundCamera], out: FoundPart) -> list[str]:
    """Return a role for each camera, from its name where that says one."""
    given: dict[str, str] = {}
    for role, words in HINTS.items():
        named = [c.node for c in cameras if any(word in c.node.lower() for word in words)]
        if len(named) == 1 and named[0] not in given:
            given[named[0]] = role
    left = [role for role in ROLES if role not in given.values()]
    for camera in cameras:
        if camera.node not in given:
            given[camera.node] = left.pop(0)
            out.remarks.append(f'is {camera.node} the {given[camera.node]} camera? Its name does '
                               'not say; correct roles of session_node')
    return [given[camera.node] for camera in cameras]


def _eyes(cameras: list[FoundCamera], out: FoundPart) -> tuple[str, ...]:
    both = [c for c in cameras if 'right' in eyes_of(c.style)]
    lacking = [c.node for c in both if 'right' not in c.transports]
    if not lacking:
        return EYES if both else EYES[:1]
    out.missing.append(f"no right eye of {', '.join(lacking)}: {SWITCH_ON}, or keep eyes: [left]")
    return EYES[:1]


def _rates(graph: FoundGraph, cameras: list[FoundCamera], eyes: tuple[str, ...], transport: str,
           out: FoundPart) -> None:
    for camera in cameras:
        for eye in eyes:
            name = f'{camera.node}/{topic_of(camera.style, eye, transport)}'
            if name not in graph.topics:
                continue
            rate_hz = graph.topics[name].rate_hz
            out.found.append(f'{name}' + ('' if rate_hz is None else f' at {rate_hz:.0f} Hz'))
            if rate_hz == 0.0 and camera.style.startswith('zed'):
                out.missing.append(f'{name} is silent: {NEITHER_EYE}')
            elif rate_hz is not None and not LOW_HZ <= rate_hz <= HIGH_HZ:
                out.remarks.append(
                    f'{name} comes at {rate_hz:.0f} Hz: a session runs at 15 Hz; set '
                    'general.pub_frame_rate of the ZED wrapper to 15')


def _none(graph: FoundGraph) -> str:
    rgb = [t.name for t in graph.of(IMAGE) if '/rgb/' in t.name]
    if rgb:
        return f'only {rgb[0]} and no left or right image: {SWITCH_ON}'
    return ('no images under the names of a ZED wrapper (…/left/color/rect/image), '
            '…/left/image_raw or …/image_raw; start the camera nodes, or remap their topics')


@dataclass(frozen=True)
class Proposal:
    """
    Parameters by node name; ``found`` and ``missing`` are sentences for a person.

    What is ``missing`` has to be mended before a session; ``remarks`` are to be read. ``files``
    are texts by the name of a file that is to be written beside the station's.
    """

    sections: dict[str, dict[str, Any]]
    found: tuple[str, ...]
    remarks: tuple[str, ...]
    missing: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """Return the station file, with what is missing and the remarks as comments."""
        notes = [*(f'# MISSING: {sentence}\n' for sentence in self.missing),
                 *(f'# CHECK: {sentence}\n' for sentence in self.remarks)]
        content = {f'/**/{name}': {'ros__parameters': values}
                   for name, values in self.sections.items()}
        return (HEAD.format(path=path) + ('#\n' if notes else '') + ''.join(notes)
                + yaml.safe_dump(content, sort_keys=False, width=95))


def propose(graph: FoundGraph, station: str = 'my_lab', folder: Path = Path()) -> Proposal:
    """Return a station file in ``folder`` for what is in a graph."""
    arm, gripper, cameras = find_arm(graph, folder), find_gripper(graph), find_cameras(graph)
    parts = (arm, gripper, cameras)
    sections: dict[str, dict[str, Any]] = {}
    if arm.values:
        sections['arm_node'] = arm.values
    if gripper.values:
        sections['gripper_node'] = gripper.values
    sections['session_node'] = {
        'station': station, **cameras.values, 'data_dir': '~/arena', 'arena': 'local',
        'arena_file': 'config/policies.yaml'}
    broadcaster = arm.values.get('ros_control', {}).get('broadcaster', '')
    fast = [f'.*{broadcaster}/.*'] if broadcaster else []
    sections['recorder_node'] = {'exclude': [*NOT_RECORDED, *fast]}
    return Proposal(sections, _all(part.found for part in parts),
                    _all(part.remarks for part in parts), _all(part.missing for part in parts),
                    arm.files)


def _all(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(sentence for each in lists for sentence in each)
