"""A checkpoint of LeRobot, called in this process by LeRobot's own package."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Floats, Observation
from arena_robot.policy.base import PolicySpec, seed_of
from arena_robot.policy.checkpoints import clipped, imported, said_space

INSTALL = 'LeRobot (pip install lerobot)'
STATE, ACTION = 'observation.state', 'action'
REPEATS = ('act', 'tdmpc')    # kinds of policies that answer without drawing


class LerobotCheckpoint:
    """
    ``lerobot:PATH``: the folder of a policy that LeRobot saved, or its name at a hub.

    ``action_space`` must be stated. ``cameras`` says which of the policy's pictures is which view
    (``{observation.images.top: left_left}``); without it the names decide. The state is the
    joints or, for Cartesian actions, the pose; then the gripper. Each query is a new beginning
    for the policy's queues, which then repeat the newest observation; so stations do not mix.
    Velocities and gripper are clipped.
    """

    def __init__(self, place: str, action_space: str = '', device: str = '',
                 cameras: Mapping[str, str] | None = None) -> None:
        space = said_space(action_space, 'lerobot')
        configs = imported('lerobot.configs.policies', 'lerobot', INSTALL)
        factory = imported('lerobot.policies.factory', 'lerobot', INSTALL)
        self._tools = imported('lerobot.policies.utils', 'lerobot', INSTALL)
        self._torch = imported('torch', 'lerobot', INSTALL)
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
        self._views = dict(cameras or _views(pictures))
        self._asked: dict[str, int] = {}
        self.spec = _spec(space, self._views, set(pictures.values()), self._length,
                          config.type not in REPEATS)
        _check(self.spec, self._views, pictures, self._state_size,
               config.output_features[ACTION].shape)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query the model: as many actions as it executes before it looks again."""
        asked = self._asked[episode] = self._asked.get(episode, 0) + 1
        seed = observation.episode_seed or seed_of(episode)
        seen = {name: observation.images[view].pixels.copy()
                for name, view in self._views.items()}
        if self._state_size:
            seen[STATE] = _state(observation, self.spec.action_space, self._state_size)
        with self._torch.inference_mode():
            self._torch.manual_seed((seed << 20) + asked)
            batch = self._before(self._tools.prepare_observation_for_inference(
                seen, self._device, observation.prompt))
            self._policy.reset()
            actions = [self._after(self._policy.select_action(dict(batch)))
                       for _ in range(self._length)]
        rows = np.stack([np.asarray(action.cpu(), np.float32).reshape(-1) for action in actions])
        return Chunk(clipped(rows, self.spec.action_space), self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Begin the episode's random numbers anew."""
        self._asked.pop(episode, None)


def _views(pictures: Mapping[str, Any]) -> dict[str, str]:
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
    size = spec.action_space.size
    if tuple(action) != (size,):
        wrong.append(f'its actions have shape {tuple(action)}, {spec.action_space.value} has '
                     f'{size} numbers')
    if state not in (0, size - 1, size):
        wrong.append(f'its state has {state} numbers, expected {size - 1}, or {size} with the '
                     'gripper')
    if wrong:
        raise ConfigError(f"lerobot: this checkpoint does not fit: {'; '.join(wrong)}")


def _state(observation: Observation, space: ActionSpace, size: int) -> Floats:
    joints = space in (ActionSpace.JOINT_POSITION, ActionSpace.JOINT_VELOCITY)
    arm = observation.arm.q if joints else observation.arm.pose
    return np.append(arm, observation.gripper.position)[:size].astype(np.float32)
