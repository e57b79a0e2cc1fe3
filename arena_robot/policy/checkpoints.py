"""
Policies from files: ``LOADER:PLACE``, such as ``lerobot:/data/act`` or ``skill:box.json``.

A loader is called with the place and keyword arguments and returns a policy. Installed packages
add loaders in the entry point group ``arena_robot.policy_loaders``. A checkpoint of openpi or of
LeRobot is called in this process, by the package that made it.
"""

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.core.extensions import Table, callable_as
from arena_robot.core.observation import Floats, Observation
from arena_robot.policy.base import PolicySpec, seed_of
from arena_robot.policy.openpi.wire import chunk_of, request_of
from arena_robot.safety.embodiments import layout_state

PolicyLoader = Callable[..., Any]
OPENPI = 'openpi (git clone https://github.com/Physical-Intelligence/openpi, then uv sync)'
# What openpi says of the checkpoints that it publishes for DROID.
SPACES = dict.fromkeys(('pi0_droid', 'pi0_fast_droid', 'pi05_droid'), 'joint_velocity')
WITHOUT_NOISE = 'pi0_fast'
LEROBOT = 'LeRobot (pip install lerobot)'
STATE, ACTION = 'observation.state', 'action'
REPEATS = ('act', 'tdmpc')    # kinds of policies that answer without drawing

LOADERS: Table[PolicyLoader] = Table('policy loader', 'arena_robot.policy_loaders', {
    'openpi': 'arena_robot.policy.checkpoints:OpenpiCheckpoint',
    'lerobot': 'arena_robot.policy.checkpoints:LerobotCheckpoint',
    'skill': 'arena_robot.policy.recorded_skill:RecordedSkill',
}, callable_as('loader'))


def imported(module: str, loader: str, install: str) -> Any:
    """Return a module that a loader needs; ConfigError says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"'{loader}:' needs {module}, which cannot be imported here: {error}. Install "
            f'{install} in the environment that runs arena policy serve') from error


def said_space(value: str, loader: str) -> ActionSpace:
    """Return the action space that an author states; ConfigError: a checkpoint does not say it."""
    known = {space.value: space for space in ActionSpace}
    if value not in known:
        problem = f"unknown action space '{value}'.{nearest(value, known)}" if value else \
            'a checkpoint does not say its action space'
        raise ConfigError(f'{loader}: {problem}; add --kwargs action_space=joint_velocity, or '
                          'another one')
    return known[value]


def clipped(actions: NDArray[np.float32], space: ActionSpace,
            layout: str = '') -> NDArray[np.float32]:
    """Return actions (N, D), of no layout with velocities in -1..1 and the gripper in 0..1."""
    out: NDArray[np.float32] = np.array(actions, np.float32)
    if layout:
        return out
    if space.is_velocity:
        out[:, :-1] = np.clip(out[:, :-1], -1.0, 1.0)
    out[:, -1] = np.clip(out[:, -1], 0.0, 1.0)
    return out


class OpenpiCheckpoint:
    """
    ``openpi:CONFIG@CHECKPOINT``: a training configuration's name and a folder or gs:// address.

    Two pictures of 224x224, one external camera and the wrist's, as openpi's DROID policies want
    them. ``action_space`` is needed for configurations of your own. Flow matching begins with
    noise of the episode's seed. Velocities and gripper are clipped, as openpi's DROID client does.
    """

    def __init__(self, place: str, action_space: str = '', default_prompt: str | None = None,
                 ) -> None:
        name, mark, checkpoint = place.partition('@')
        if not mark or not name or not checkpoint:
            raise ConfigError(f"'openpi:{place}': write openpi:CONFIG@CHECKPOINT, such as "
                              'openpi:pi05_droid@gs://openpi-assets/checkpoints/pi05_droid')
        space = said_space(action_space or SPACES.get(name, ''), 'openpi')
        configs = imported('openpi.training.config', 'openpi', OPENPI)
        policies = imported('openpi.policies.policy_config', 'openpi', OPENPI)
        config = configs.get_config(name)
        self._policy = policies.create_trained_policy(config, checkpoint,
                                                      default_prompt=default_prompt)
        self._noise = _noise_shape(config.model)
        self._asked: dict[str, int] = {}
        self.spec = PolicySpec(action_space=space, samples=self._noise is not None)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query the model."""
        request = request_of(observation, episode, self.spec)
        del request['endpoint']
        given: dict[str, Any] = {}
        if self._noise is not None:
            asked = self._asked[episode] = self._asked.get(episode, 0) + 1
            random = np.random.default_rng(
                (observation.episode_seed or seed_of(episode), asked))
            given['noise'] = random.standard_normal(self._noise).astype(np.float32)
        chunk = chunk_of(self._policy.infer(request, **given), self.spec)
        return dataclasses.replace(chunk, actions=clipped(chunk.actions, chunk.space))

    def reset(self, episode: str = '') -> None:
        """Begin the episode's noise anew."""
        self._asked.pop(episode, None)


def _noise_shape(model: Any) -> tuple[int, int] | None:
    """Return the shape of the noise that a model begins with; None for one that takes none."""
    if model.model_type.value == WITHOUT_NOISE:
        return None
    return int(model.action_horizon), int(model.action_dim)


class LerobotCheckpoint:
    """
    ``lerobot:PATH``: the folder of a policy that LeRobot saved, or its name at a hub.

    ``action_space`` must be stated. ``cameras`` says which of the policy's pictures is which view
    (``{observation.images.top: left_left}``); without it the names decide. The state is the
    joints or, for Cartesian actions, the pose; then the gripper. Each query is a new beginning
    for the policy's queues, which then repeat the newest observation; so stations do not mix.
    Velocities and gripper are clipped. With a ``layout``, ROBOT/NAME, state and actions are its
    numbers, of an arm with as many joints as an action has numbers before the gripper's.
    """

    def __init__(self, place: str, action_space: str = '', device: str = '',
                 cameras: Mapping[str, str] | None = None, layout: str = '') -> None:
        space = said_space(action_space, 'lerobot')
        configs = imported('lerobot.configs.policies', 'lerobot', LEROBOT)
        factory = imported('lerobot.policies.factory', 'lerobot', LEROBOT)
        self._tools = imported('lerobot.policies.utils', 'lerobot', LEROBOT)
        self._torch = imported('torch', 'lerobot', LEROBOT)
        config = configs.PreTrainedConfig.from_pretrained(place)
        if device:
            config.device = device
        self._device = self._torch.device(config.device or 'cpu')
        self._policy = factory.get_policy_class(config.type).from_pretrained(place, config=config)
        self._policy.to(self._device).eval()
        steps = {'device_processor': {'device': str(self._device)}}
        self._before, self._after = factory.make_pre_post_processors(
            config, pretrained_path=place, preprocessor_overrides=steps)
        self._length = int(config.n_action_steps)
        shapes = {name: tuple(feature.shape) for name, feature in config.input_features.items()}
        pictures = {name: shape for name, shape in shapes.items() if len(shape) == 3}
        self._state_size = shapes.get(STATE, (0,))[0]
        self._views = dict(cameras or views_of(pictures))
        self._asked: dict[str, int] = {}
        self.spec = _spec(space, self._views, set(pictures.values()), self._length,
                          config.type not in REPEATS)
        if layout:
            self.spec = dataclasses.replace(
                self.spec, layout=layout, joints=config.output_features[ACTION].shape[0] - 1)
            layout_state(layout, np.zeros(self.spec.joints), 0.0)    # or it is refused here
        _check(self.spec, self._views, pictures, self._state_size,
               config.output_features[ACTION].shape)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query the model: as many actions as it executes before it looks again."""
        asked = self._asked[episode] = self._asked.get(episode, 0) + 1
        seed = observation.episode_seed or seed_of(episode)
        seen = {name: observation.images[view].pixels.copy()
                for name, view in self._views.items()}
        if self._state_size:
            seen[STATE] = state_of(observation, self.spec.action_space, self._state_size,
                                   self.spec.layout)
        with self._torch.inference_mode():
            self._torch.manual_seed((seed << 20) + asked)
            batch = self._before(self._tools.prepare_observation_for_inference(
                seen, self._device, observation.prompt))
            self._policy.reset()
            actions = [self._after(self._policy.select_action(dict(batch)))
                       for _ in range(self._length)]
        rows = np.stack([np.asarray(action.cpu(), np.float32).reshape(-1) for action in actions])
        return Chunk(clipped(rows, self.spec.action_space, self.spec.layout),
                     self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Begin the episode's random numbers anew."""
        self._asked.pop(episode, None)


def views_of(pictures: Iterable[str]) -> dict[str, str]:
    """Return the view of each picture by the words in its name; ConfigError when none fits."""
    views: dict[str, str] = {}
    for name in pictures:
        words = name.rpartition('images.')[2].lower()
        if 'wrist' in words or 'hand' in words:
            views[name] = 'wrist_left'
        elif '2' in words or 'right' in words.replace('_right', ''):
            views[name] = 'right_left'
        else:
            views[name] = 'left_left'
    if len(set(views.values())) < len(views):
        raise ConfigError(f"lerobot: the pictures {', '.join(pictures)} cannot be told apart; add "
                          "--kwargs 'cameras={observation.images.NAME: left_left, …}' with "
                          'left_left, right_left, wrist_left')
    return views


def _spec(space: ActionSpace, views: Mapping[str, str], shapes: set[tuple[int, ...]],
          length: int, samples: bool) -> PolicySpec:
    if len(shapes) > 1:
        raise ConfigError(f'lerobot: all pictures must have one size, found {sorted(shapes)}')
    size = next(iter(shapes))[1:] if shapes else None
    used = set(views.values())
    return PolicySpec(
        action_space=space, image_size=(size[0], size[1]) if size else None,
        wrist_camera='wrist_left' in used, samples=samples, chunk_length=length,
        external_cameras=2 if 'right_left' in used else int('left_left' in used))


def _check(spec: PolicySpec, views: Mapping[str, str], pictures: Mapping[str, Any],
           state: int, action: tuple[int, ...]) -> None:
    """Raise ConfigError where the checkpoint is not one for this robot and action space."""
    wrong = []
    if unknown := sorted(set(views.values()) - set(spec.views())):
        wrong.append(f"there is no view {', '.join(unknown)}; known: left_left, right_left, "
                     'wrist_left')
    if set(views) != set(pictures):
        wrong.append(f"'cameras' must name {', '.join(pictures)}, found {', '.join(views)}")
    size = spec.action_space.size(spec.joints)
    if tuple(action) != (size,):
        wrong.append(f'its actions have shape {tuple(action)}, {spec.action_space.value} has '
                     f'{size} numbers')
    if state not in (0, size - 1, size):
        wrong.append(f'its state has {state} numbers, expected {size - 1}, or {size} with the '
                     'gripper')
    if wrong:
        raise ConfigError(f"lerobot: this checkpoint does not fit: {'; '.join(wrong)}")


def state_of(observation: Observation, space: ActionSpace, size: int,
             layout: str = '') -> Floats:
    """
    Return the first ``size`` numbers of the joints, or the pose, and the gripper.

    Cartesian actions begin at a pose. In a layout the joints and the gripper are its numbers.
    """
    if layout:
        return layout_state(layout, observation.arm.q, observation.gripper.position)[
            :size].astype(np.float32)
    joints = space in (ActionSpace.JOINT_POSITION, ActionSpace.JOINT_VELOCITY)
    arm = observation.arm.q if joints else observation.arm.pose
    return np.append(arm, observation.gripper.position)[:size].astype(np.float32)
