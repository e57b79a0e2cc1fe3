"""Cameras in a graph: which nodes publish which eyes, under which names, and how."""

import re
from dataclasses import dataclass

from arena_robot.core.observation import EYES, ROLES
from arena_robot.nodes.adopt.graph import FoundGraph
from arena_robot.nodes.adopt.robot import FoundPart
from arena_robot.nodes.camera.params import eyes_of
from arena_robot.nodes.remote.transports import COMPRESSED, RAW, TRANSPORTS
from arena_robot.recording.episode.views import IMAGE, JPEG
from arena_robot.robots.cameras import STYLES

HINTS = {'wrist': ('wrist', 'hand', 'gripper'), 'left': ('left', 'ext1', 'exterior_1'),
         'right': ('right', 'ext2', 'exterior_2')}
LOW_HZ, HIGH_HZ = 14.5, 31.0
SWITCH_ON = ('set video.publish_left_right: true in the parameters of the ZED wrapper (it is off '
             'by default)')


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
    out.remarks += [f'{c.node} has the topic names of {c.style}, the others of {style}: a session '
                    'takes one style' for c in cameras if c.style != style]
    cameras = [c for c in cameras if c.style == style][:len(ROLES)]
    roles = _roles(cameras, out)
    eyes = _eyes(cameras, style, out)
    every = frozenset.intersection(*(c.transports[eye] for c in cameras for eye in eyes))
    transport = COMPRESSED if COMPRESSED in every else RAW
    if transport == RAW:
        out.remarks.append('raw images: install image_transport_plugins where the cameras run '
                           '(apt install ros-jazzy-image-transport-plugins) for …/compressed; raw '
                           'images of 720p from six eyes are 332 MB/s')
    out.values = {'cameras': [graph.relative(c.node) for c in cameras], 'roles': roles,
                  'eyes': list(eyes), 'topic_style': style, 'image_transport': transport}
    if len(cameras) < len(ROLES):
        out.remarks.append(f'{len(cameras)} of {len(ROLES)} cameras; a policy that needs another '
                           'view is not assigned to this station')
    _rates(graph, cameras, eyes, transport, out)
    return out


def _cameras(graph: FoundGraph) -> list[FoundCamera]:
    found: dict[tuple[str, str], dict[str, set[str]]] = {}
    for style, names in STYLES.items():
        for eye in eyes_of(style):
            tail = names[0].format(eye=eye, name='').removeprefix('~')
            for topic in (*graph.of(IMAGE), *graph.of(JPEG)):
                for transport in (RAW, COMPRESSED):
                    end = f'{tail}{TRANSPORTS[transport]}'
                    if topic.name.endswith(end) and topic.publishers:
                        node = topic.name.removesuffix(end)
                        found.setdefault((node, style), {}).setdefault(eye, set()).add(transport)
    return [FoundCamera(node, style, {eye: frozenset(kinds) for eye, kinds in eyes.items()})
            for (node, style), eyes in sorted(found.items())
            # left/image_raw ends with image_raw too: it is not a camera called …/left
            if not (style == 'mono' and re.search(r'/(left|right|rgb)$', node))]


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


def _eyes(cameras: list[FoundCamera], style: str, out: FoundPart) -> tuple[str, ...]:
    if len(eyes_of(style)) == 1:
        return EYES[:1]
    lacking = [c.node for c in cameras if 'right' not in c.transports]
    if not lacking:
        return EYES
    out.missing.append(f"no right eye of {', '.join(lacking)}: {SWITCH_ON}, or keep eyes: [left]")
    return EYES[:1]


def _rates(graph: FoundGraph, cameras: list[FoundCamera], eyes: tuple[str, ...], transport: str,
           out: FoundPart) -> None:
    for camera in cameras:
        for eye in eyes:
            name = (camera.node + STYLES[camera.style][0].format(eye=eye, name='')
                    .removeprefix('~') + TRANSPORTS[transport])
            rate_hz = graph.topics[name].rate_hz
            out.found.append(f'{name}' + ('' if rate_hz is None else f' at {rate_hz:.0f} Hz'))
            if rate_hz is not None and not LOW_HZ <= rate_hz <= HIGH_HZ:
                out.remarks.append(
                    f'{name} comes at {rate_hz:.0f} Hz: a session runs at 15 Hz; set '
                    'general.pub_frame_rate of the ZED wrapper to 15')


def _none(graph: FoundGraph) -> str:
    rgb = [t.name for t in graph.of(IMAGE) if '/rgb/' in t.name]
    if rgb:
        return f'only {rgb[0]} and no left or right image: {SWITCH_ON}'
    return ('no images under the names of a ZED wrapper (…/left/color/rect/image), '
            '…/left/image_raw or …/image_raw; start the camera nodes, or remap their topics')
