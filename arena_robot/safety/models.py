"""
Arms of models: what an embodiment's file says of an arm, and its row from MJCF or URDF.

MuJoCo reads the model: its joints and frames are looked up by name, shapes are taken as convex,
and masses and motors are left out.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from arena_robot.core.config import build, nearest
from arena_robot.core.errors import ConfigError, NotConverged
from arena_robot.core.observation import Floats
from arena_robot.core.tuning import draw_without_window
from arena_robot.robots.arms import HERE, ROBOTS, ArmLimits, Body, Chain, Robot, Shape, matrix_of
from arena_robot.safety.bounds import Links, outside
from arena_robot.safety.kinematics import frames, joint_motion, solve

PACKAGE = 'package:'    # model: package:DISTRIBUTION/path of a file that it installs
# mjJNT_HINGE and mjJNT_SLIDE, and the range (rad or m) of a joint to which the model gives none.
TURN_OR_SLIDE, UNLIMITED = (3, 2), (-2.0 * math.pi, 2.0 * math.pi)
# What a proposal assumes of an arm whose model does not say it: velocity (rad/s, m/s),
# acceleration (rad/s², m/s²), torque (N m, N); where its reset pose is tried, ahead of the base
# and above it (m), and from how many places; a workspace (m) that no arm leaves.
ASSUMED, AHEAD_M, RESET_M, TRIES, WIDE_M = (1.0, 5.0, 30.0), (0.4, 0.3, 0.5), 0.4, 12, 9.0
# Of a model all that is neither a body, a joint, a frame nor a shape.
LEFT_OUT = ('textures', 'materials', 'actuators', 'sensors', 'keys', 'equalities', 'tendons',
            'skins', 'hfields', 'pairs', 'excludes', 'cameras', 'lights')
READABLE = ('.stl', '.obj', '.msh')
# The shapes that are taken beside meshes, by mjtGeom, with how many sizes they have.
SHAPES = {2: ('sphere', 1), 3: ('capsule', 2), 4: ('ellipsoid', 3), 5: ('cylinder', 2),
          6: ('box', 3)}


Hull = Callable[[], Floats | None]


@dataclass(frozen=True)
class ArmPart:
    """
    An arm: ``robot``, a row of this package, or a ``model`` file and what it does not say.

    ``joints`` n names from base to tool; ``base`` and ``tool`` bodies or sites of the model. There
    may be other arms on the base, and fingers of their hands, in the order of the model: they are
    moved as one arm with n joints, and the tool is that of the last one. The limits are (n,) per
    joint: of position ``lower`` and ``upper`` (empty: the model's), of ``velocity`` (rad/s),
    ``acceleration`` (rad/s²) and ``torque`` (N m; empty: the model's); in m and N where a joint
    slides. ``reset`` (n,) is the pose between episodes. ``base_pose`` x y z (m) roll pitch yaw
    (rad) is where it stands. ``workspace_*`` (m, in ``base``) bound the tool.
    """

    robot: str = ''
    model: str = ''
    joints: tuple[str, ...] = ()
    base: str = ''
    tool: str = ''
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    velocity: tuple[float, ...] = ()
    acceleration: tuple[float, ...] = ()
    torque: tuple[float, ...] = ()
    reset: tuple[float, ...] = ()
    base_pose: tuple[float, ...] = (0.0,) * 6
    workspace_lower: tuple[float, ...] = (-1.0, -1.0, -1.0)
    workspace_upper: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        if bool(self.robot) == bool(self.model):
            raise ValueError('an arm has either robot, a row of this package, or model, a file')
        if self.robot and self.robot not in ROBOTS:
            raise ValueError(f"unknown robot '{self.robot}'.{nearest(self.robot, ROBOTS)}")
        if len(self.base_pose) != 6 or not np.all(np.isfinite(self.base_pose)):
            raise ValueError('base_pose needs 6 numbers: x y z (m) roll pitch yaw (rad)')


def arm_row(part: ArmPart, folder: Path, title: str, name: str,
            hand: tuple[float, float] = (0.0, 0.0),
            fingers: Mapping[str, float] | None = None) -> Robot:
    """
    Return the row of an arm; ConfigError with a line for each mistake of its numbers.

    ``hand`` is the capsule of its gripper, as a GripperModel's; ``fingers`` are joints of the
    model that are fingers, and where they are open.
    """
    if part.robot:
        return ROBOTS[part.robot]
    path = model_path(part.model, folder)
    model = read_chain(path, part.joints, part.base, part.tool, fingers)
    torque = part.torque or model.torque
    lower, upper = part.lower or model.lower, part.upper or model.upper
    _raise(_number_mistakes(part, {
        'lower': lower, 'upper': upper, 'velocity': part.velocity,
        'acceleration': part.acceleration, 'torque': torque, 'reset': part.reset}))
    count, box = len(part.joints), (part.workspace_lower, part.workspace_upper)
    try:
        limits = ArmLimits(
            joint_lower=lower, joint_upper=upper, hardware_lower=model.lower,
            hardware_upper=model.upper, velocity=part.velocity, torque=torque,
            workspace_lower=box[0], workspace_upper=box[1], elbow_lower=box[0],
            elbow_upper=box[1], stiffness=(0.0,) * count, flange_stiffness=(0.0,) * 6,
            chain=model.chain)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    _raise([f'reset of {joint} is {value:g}, allowed are {low:g} to {high:g}'
            for joint, value, low, high in zip(part.joints, part.reset, limits.q_min,
                                               limits.q_max, strict=True)
            if not low <= value <= high])
    if (excess := outside(np.array(part.reset), limits)) > 0.0:
        raise ConfigError(f'at reset the tool or the elbow is {excess:.3f} m outside the '
                          'workspace')
    limits = dataclasses.replace(limits, chain=dataclasses.replace(
        model.chain, body=cache(partial(_body, limits, np.array(part.reset), hand))))
    return Robot(name, title, limits, part.velocity, part.acceleration, torque,
                 reset_joints=part.reset, own_joints=part.joints, own_frames=model.frames)


def _body(limits: ArmLimits, reset: Floats, hand: tuple[float, float]) -> Body:
    """Return the shapes of limits' chain and the hand's, and which links touch at reset."""
    chain, (length_m, radius_m) = limits.chain, hand
    shapes = chain.body().shapes
    if radius_m and shapes:
        half_m = 0.5 * length_m - radius_m
        place = matrix_of(chain.end) @ matrix_of((*HERE[:-1], half_m + radius_m))
        shapes = (*shapes, Shape(limits.joints, 'capsule', (radius_m, half_m),
                                 _floats(place[:3].ravel())))
    links = Links(dataclasses.replace(limits, chain=dataclasses.replace(
        chain, body=lambda: Body(shapes))))
    near = links.gaps(reset, limits.self_distance) < limits.self_distance
    touching = {(shapes[i].link, shapes[j].link)
                for (i, j), too_near in zip(links.pairs, near, strict=True) if too_near}
    return Body(shapes, tuple(sorted(touching)))


def _number_mistakes(part: ArmPart, numbers: Mapping[str, tuple[float, ...]]) -> list[str]:
    count = len(part.joints)
    wrong = [f'{what} needs {count} finite numbers, one for each joint; found {len(values)}'
             for what, values in numbers.items()
             if len(values) != count or not np.all(np.isfinite(values))]
    for what in ('velocity', 'acceleration', 'torque'):
        wrong += [f'{what} of {joint} must be above 0, found {value:g}'
                  for joint, value in zip(part.joints, numbers[what], strict=False) if value <= 0]
    return wrong


def _raise(wrong: list[str]) -> None:
    if wrong:
        raise ConfigError('\n'.join(wrong))


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))


def model_path(model: str, folder: Path) -> Path:
    """Return the file of a model: beside the embodiment's, or of an installed distribution."""
    path = folder / model
    if model.startswith(PACKAGE):
        from importlib import metadata  # takes 25 ms to import
        package, _, inside = model.removeprefix(PACKAGE).partition('/')
        try:
            path = Path(str(metadata.distribution(package).locate_file(inside)))
        except metadata.PackageNotFoundError:
            raise ConfigError(f'model {model}: the package {package} is not installed: pip '
                              f'install {package}') from None
    if not path.is_file():
        raise ConfigError(f'model {model}: there is no file {path}')
    return path


@dataclass(frozen=True)
class ModelChain:
    """An arm in a model: its chain, limits (n,), torque () if not told, n + 2 frames."""

    chain: Chain
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    torque: tuple[float, ...]
    frames: tuple[str, ...]


def read_chain(path: Path, joints: tuple[str, ...], base: str, tool: str,
               fingers: Mapping[str, float] | None = None) -> ModelChain:
    """
    Return the chain of ``joints`` from ``base`` to ``tool`` in an MJCF or URDF file.

    The shapes of ``fingers`` are where these joints are as far open as it says.
    Raises ConfigError for names that are not there, in another order, or not behind the base.
    """
    model, hulls = _compiled(path)
    way, end = _way(model, path.name, joints, base, tool)
    places, axes, slides, frames, index, before = [], [], [], [base], [], []
    at = {int(model.body(base).id): (0, np.eye(4))}
    for body in sorted({*way, *_other_ways(model, path.name, joints, base)}):
        link, place = at[int(model.body_parentid[body])]
        place = place @ _pose(model.body_pos[body], model.body_quat[body])
        for i in (j for j in range(model.njnt) if model.jnt_bodyid[j] == body):
            if model.jnt_type[i] not in TURN_OR_SLIDE:
                raise ConfigError(f'joint {model.joint(i).name} of {path.name} neither turns nor '
                                  'slides')
            anchor, zero = _moved(model, i, 0.0)
            places.append(_floats((place @ anchor @ zero)[:3].ravel()))
            axes.append(_floats(model.jnt_axis[i]))
            slides.append(bool(model.jnt_type[i] == TURN_OR_SLIDE[1]))
            index.append(i)
            before.append(link - 1)
            frames.append(model.body(body).name)
            link, place = len(index), np.asarray(np.linalg.inv(anchor))
        at[body] = link, place
    last, place = at[way[-1]] if way else (0, np.eye(4))
    _require_order(tuple(str(model.joint(i).name) for i in index), joints, last,
                   f"from '{base}' to '{tool}' {path.name}")
    tree = tuple(before) if before != list(range(-1, last - 1)) else ()
    chain = Chain(tuple(places), tuple(axes), tuple(slides),
                  _floats((place @ end)[:3].ravel()), _middle(before),
                  lambda: Body(_shapes(model, at, hulls, fingers or {})), tree)
    span = np.where(model.jnt_limited[index][:, None], model.jnt_range[index], UNLIMITED)
    torque = _floats(model.jnt_actfrcrange[index][:, 1]) if np.all(
        model.jnt_actfrclimited[index]) else ()
    flange = f'{tool}_flange' if tool in frames else tool
    return ModelChain(chain, _floats(span[:, 0]), _floats(span[:, 1]), torque, (*frames, flange))


def _require_order(found: tuple[str, ...], joints: tuple[str, ...], last: int,
                   where: str) -> None:
    if found != joints:
        raise ConfigError(f"{where} has the joints {', '.join(found) or 'none'}: name these, in "
                          'this order')
    if last != len(found):
        raise ConfigError(f'{where} the last joint is not {found[-1]}, the last of the model: the '
                          'tool is that of the arm which comes last there')


def _middle(before: list[int]) -> int:
    """Return the joint in the middle of those that move the tool."""
    moving = [len(before) - 1]
    while before[moving[-1]] >= 0:
        moving.append(before[moving[-1]])
    return moving[len(moving) // 2]


def _moved(model: Any, joint: int, q: float) -> tuple[Floats, Floats]:
    """Return the place (4, 4) of a joint in its body, and what it moves to get to ``q``."""
    slide = bool(model.jnt_type[joint] == TURN_OR_SLIDE[1])
    return (_pose(model.jnt_pos[joint], (1.0, 0.0, 0.0, 0.0)), joint_motion(
        model.jnt_axis[joint], q - float(model.qpos0[model.jnt_qposadr[joint]]), slide))


def _shapes(model: Any, at: dict[int, tuple[int, Floats]], hulls: Mapping[str, Hull],
            fingers: Mapping[str, float]) -> tuple[Shape, ...]:
    """
    Return the shapes of the bodies ``at`` a place in a link, and of those that are fixed to them.

    They are those that collide; of a link without one, those that are drawn. ``fingers`` are open;
    what hangs on another joint that is not the arm's is left out, and what stands in the world.
    """
    out: list[Shape] = []
    for body in range(1, model.nbody):
        parent = int(model.body_parentid[body])
        own = {i: str(model.joint(i).name)
               for i in range(model.njnt) if model.jnt_bodyid[i] == body}
        if body not in at and parent and parent in at and all(
                name in fingers for name in own.values()):
            link, place = at[parent]
            place = place @ _pose(model.body_pos[body], model.body_quat[body])
            for joint, name in own.items():
                anchor, turn = _moved(model, joint, fingers[name])
                place = place @ anchor @ turn @ np.linalg.inv(anchor)
            at[body] = link, place
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    for solid in (True, False):
        shaped = {shape.link for shape in out}
        for i in np.flatnonzero(collides == solid):
            body = int(model.geom_bodyid[i])
            link, place = at.get(body, (-1, np.eye(4))) if body else (-1, np.eye(4))
            if link < 0 or link in shaped:
                continue
            place = place @ _pose(model.geom_pos[i], model.geom_quat[i])
            kind, sizes = SHAPES[int(model.geom_type[i])]
            if (hull := hulls.get(str(model.geom(i).name))) is None:
                out.append(Shape(link, kind, _floats(model.geom_size[i][:sizes]),
                                 _floats(place[:3].ravel())))
            elif (points := hull()) is not None:
                moved = points @ place[:3, :3].T + place[:3, 3]
                out.append(Shape(link, 'mesh', points=tuple(map(_floats, moved))))
    return tuple(out)


def _way(model: Any, file: str, joints: tuple[str, ...], base: str,
         tool: str) -> tuple[list[int], Floats]:
    """Return the bodies from the one behind ``base`` to the tool's, and the tool in that."""
    bodies, sites, known = ([element(i).name for i in range(count)] for element, count in (
        (model.body, model.nbody), (model.site, model.nsite), (model.joint, model.njnt)))
    wrong = [f"{file} has no joint '{name}'.{nearest(name, known)}"
             for name in joints if name not in known]
    if base not in bodies:
        wrong.append(f"{file} has no body '{base}' (base).{nearest(base, bodies)}")
    if tool not in bodies and tool not in sites:
        wrong.append(f"{file} has no body or site '{tool}' (tool).{nearest(tool, bodies)}")
    _raise(wrong if wrong or joints else ['joints: the names of the joints are needed'])
    end = np.eye(4)
    if tool in bodies:
        body = bodies.index(tool)
    else:
        site = sites.index(tool)
        body, end = int(model.site_bodyid[site]), _pose(model.site_pos[site],
                                                        model.site_quat[site])
    way = []
    while bodies[body] != base:
        if not body:
            raise ConfigError(f"'{tool}' does not hang on '{base}' in {file}")
        way.append(body)
        body = int(model.body_parentid[body])
    return way[::-1], end


def _other_ways(model: Any, file: str, joints: tuple[str, ...], base: str) -> set[int]:
    """Return the bodies that ``joints`` move, and those between them and ``base``."""
    ways, first = set[int](), int(model.body(base).id)
    for name in joints:
        body = int(model.joint(name).bodyid[0])
        while body != first:
            if not body:
                raise ConfigError(f"joint {name} does not hang on '{base}' in {file}")
            ways.add(body)
            body = int(model.body_parentid[body])
    return ways


def proposed_arm(path: Path, base: str = '', tool: str = '') -> dict[str, Any]:
    """
    Return the keys of an :class:`ArmPart` for the arm in a model, to be checked and edited.

    Without ``base`` it begins at the first body, without ``tool`` it ends at the last body behind
    most joints. At reset the tool is down and the elbow up, if it can be. Raises ConfigError.
    """
    model, _ = _compiled(path)
    names = [str(model.body(i).name) for i in range(model.nbody)]
    base = base or names[min(1, len(names) - 1)]
    ways: dict[int, tuple[str, ...]] = {names.index(base) if base in names else 0: ()}
    for body in range(1, model.nbody):
        if (parent := int(model.body_parentid[body])) in ways:
            own = np.flatnonzero(model.jnt_bodyid == body)
            ways[body] = (*ways[parent], *(str(model.joint(int(i)).name) for i in own))
    tool = tool or names[max(ways, key=lambda body: (len(ways[body]), body))]
    at = {str(model.site(i).name): int(model.site_bodyid[i]) for i in range(model.nsite)}
    joints = ways.get(names.index(tool) if tool in names else at.get(tool, 0), ())
    chain = read_chain(path, joints, base, tool)
    speeds = {joint.get('name', ''): float(limit.get('velocity', ASSUMED[0]))
              for joint in ElementTree.parse(path).iter('joint') for limit in joint.iter('limit')}
    middle = np.round((np.array(chain.lower) + chain.upper) / 2, 3)
    arm = {'model': str(path.resolve()), 'joints': list(joints), 'base': base, 'tool': tool,
           'velocity': [speeds.get(name, ASSUMED[0]) for name in joints],
           'acceleration': [ASSUMED[1]] * len(joints), 'reset': middle.tolist(),
           'torque': list(chain.torque) or [ASSUMED[2]] * len(joints)}
    wide = {'workspace_lower': [-WIDE_M] * 3, 'workspace_upper': [WIDE_M] * 3}
    limits = arm_row(build(ArmPart, arm | wide), path.parent, path.stem, path.stem).limits
    goal, drawn = np.diag([1.0, -1.0, -1.0, 1.0]), np.random.default_rng(0)
    for start in (middle, *drawn.uniform(limits.q_min, limits.q_max, (TRIES, len(joints)))):
        goal[:3, 3] = drawn.choice(AHEAD_M), 0.0, RESET_M
        with contextlib.suppress(NotConverged):
            q = np.clip(np.round(solve(goal, start, limits), 3), limits.q_min, limits.q_max)
            if frames(q, limits.chain)[limits.chain.elbow, 2, 3] >= RESET_M / 2:
                return arm | {'reset': q.tolist()}
    return arm


def model_joints(path: Path) -> list[str]:
    """Return the names of the joints in an MJCF or URDF file. Raises ConfigError."""
    model, _ = _compiled(path)
    return [str(model.joint(i).name) for i in range(model.njnt)]


def _compiled(path: Path) -> tuple[Any, dict[str, Hull]]:
    """Return a compiled model, and what reads the meshes that its named spheres stand for."""
    draw_without_window()    # who reads a model first may draw it later
    try:
        import mujoco
    except ImportError as error:
        raise ConfigError(f'MuJoCo is needed to read {path.name}: pip install mujoco') from error
    try:
        spec = (urdf_spec(path) if path.suffix == '.urdf'
                else mujoco.MjSpec.from_file(str(path)))
        hulls = _without_meshes(spec, path.parent)
        for kind in LEFT_OUT:
            for element in list(getattr(spec, kind, ())):
                spec.delete(element)
        spec.compiler.fusestatic = False
        spec.compiler.boundmass = spec.compiler.boundinertia = 1e-9
        return spec.compile(), hulls
    except (ValueError, ElementTree.ParseError, mujoco.FatalError) as error:
        raise ConfigError(f'MuJoCo cannot read {path}: {error}') from error


def urdf_spec(path: Path) -> Any:
    """Return the MjSpec of a URDF; shapes whose mesh is missing or unreadable are left out."""
    import mujoco
    root = ElementTree.fromstring(path.read_text(encoding='utf-8'))
    for link in root.iter('link'):
        for shape in [*link.findall('visual'), *link.findall('collision')]:
            for mesh in shape.iter('mesh'):
                if (file := _mesh_file(mesh.get('filename', ''), path.parent)) is None:
                    link.remove(shape)
                    break
                mesh.set('filename', str(file))
    for own in root.findall('mujoco'):
        root.remove(own)
    ElementTree.SubElement(
        ElementTree.SubElement(root, 'mujoco'), 'compiler', strippath='false',
        discardvisual='false', fusestatic='false')
    return mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding='unicode'))


def _mesh_file(name: str, folder: Path) -> Path | None:
    """Return a mesh's file: its name, or the end of it, in a folder or one of those above."""
    inside = Path(name.split('://')[-1])
    if inside.suffix.lower() not in READABLE:
        return None
    ends = [Path(*inside.parts[i:]) for i in range(len(inside.parts))]
    return next((above / end for end in ends for above in (folder, *folder.resolve().parents)
                 if (above / end).is_file()), None)


def _without_meshes(spec: Any, folder: Path) -> dict[str, Hull]:
    """
    Leave of a specification's geoms those with a shape, and a small sphere for each mesh.

    Return what reads the meshes by the names that their geoms have now. MuJoCo takes a second and
    more to compile meshes of fine surfaces; and files may be missing.
    """
    hulls: dict[str, Hull] = {}
    known = {
        mesh.name or Path(mesh.file).stem: cache(partial(
            _hull, np.array(mesh.uservert, np.float64).reshape(-1, 3),
            folder / spec.meshdir / mesh.file, np.array(mesh.refpos),
            _pose((0, 0, 0), mesh.refquat)[:3, :3] * mesh.scale)) for mesh in spec.meshes}
    for i, geom in enumerate(list(spec.geoms)):
        geom.name, geom.material, hull = f'shape{i}', '', known.get(geom.meshname)
        if hull is not None:
            hulls[geom.name] = hull
            geom.type, geom.meshname, geom.size = 2, '', (1e-3, 0.0, 0.0)
        elif geom.meshname or int(geom.type) not in SHAPES:
            spec.delete(geom)
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    return hulls


def _hull(points: Floats, file: Path, origin: Floats, turn: Floats) -> Floats | None:
    """Return the corners (k, 3) m of a mesh's convex hull, None where there is no such mesh."""
    from scipy.spatial import ConvexHull, QhullError
    try:
        if file.suffix.lower() == '.obj':
            lines = file.read_text(encoding='utf-8').splitlines()
            points = np.array([line.split()[1:4] for line in lines if line[:2] == 'v '], float)
        elif file.suffix.lower() == '.stl':
            rows = np.frombuffer(file.read_bytes()[84:], [('normal', '<f4', 3), (
                'corners', '<f4', (3, 3)), ('end', '<u2')])
            points = rows['corners'].reshape(-1, 3).astype(float)
        points = (points - origin) @ turn
        return np.asarray(points[ConvexHull(points).vertices])
    except (OSError, ValueError, QhullError):
        return None


def _pose(place: Any, quaternion: Any) -> Floats:
    """Return the (4, 4) of x y z (m) and a unit quaternion w x y z."""
    w, v = float(quaternion[0]), np.array(quaternion[1:], np.float64)
    cross = np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    out = np.eye(4)
    out[:3, :3] += 2.0 * (w * cross + cross @ cross)
    out[:3, 3] = place
    return out
