"""LeRobot and openpi by the parts of their interfaces that the loaders use; no weights."""

import contextlib
import sys
import types

import numpy as np


def module(monkeypatch, name, **content):
    """Put a module into sys.modules with its parents."""
    made = types.ModuleType(name)
    made.__dict__.update(content)
    parts = name.split('.')
    for k in range(1, len(parts)):
        parent = '.'.join(parts[:k])
        if parent not in sys.modules:
            monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    monkeypatch.setitem(sys.modules, name, made)


class Tensor:
    """A batch of one row on no device."""

    def __init__(self, values):
        self.values = values

    def cpu(self):
        return self.values


class Feature:
    def __init__(self, *shape):
        self.shape = shape


class LerobotConfig:
    """What config.json of a saved policy becomes."""

    def __init__(self, kind='diffusion', action=8, state=8, pictures=None):
        self.type, self.device, self.n_action_steps = kind, 'cpu', 4
        shapes = pictures or {'exterior_1_left': (3, 24, 32), 'wrist_left': (3, 24, 32)}
        self.input_features = {f'observation.images.{name}': Feature(*shape)
                               for name, shape in shapes.items()}
        self.input_features['observation.state'] = Feature(state)
        self.output_features = {'action': Feature(action)}

    def from_pretrained(self, place):
        self.place = place
        return self


class LerobotPolicy:
    """Keeps a queue of actions as LeRobot's policies do, and draws with the global generator."""

    def __init__(self, torch, config):
        self.torch, self.config, self.queue, self.seen = torch, config, [], []

    def from_pretrained(self, place, config):
        assert (place, config) == (self.config.place, self.config)
        return self

    def to(self, device):
        return self

    def eval(self):
        return self

    def reset(self):
        self.queue = []

    def select_action(self, batch):
        if not self.queue:
            self.seen.append(batch)
            mean = batch['observation.state'][0].mean()
            noise = self.torch.random.normal(0.0, 0.01, (4, self.config.output_features[
                'action'].shape[0]))
            self.queue = [Tensor(np.float32(mean + row)[None]) for row in noise]
        return self.queue.pop(0)


def lerobot(monkeypatch, config):
    """Install the stand-in of LeRobot and torch; return its policy."""
    torch = types.SimpleNamespace(random=None)

    def manual_seed(seed):
        torch.random = np.random.default_rng(seed)

    policy = LerobotPolicy(torch, config)

    def prepare(observation, device, task=None):
        batch = {name: value[None] for name, value in observation.items()}
        return batch | {'task': task}

    def processors(config, pretrained_path, preprocessor_overrides):
        assert pretrained_path == config.place
        assert preprocessor_overrides['device_processor']['device'] == 'cpu'
        return (lambda batch: batch), (lambda action: action)

    module(monkeypatch, 'torch', device=str, manual_seed=manual_seed,
           inference_mode=contextlib.nullcontext)
    module(monkeypatch, 'lerobot.configs.policies', PreTrainedConfig=config)
    module(monkeypatch, 'lerobot.policies.utils', prepare_observation_for_inference=prepare)
    module(monkeypatch, 'lerobot.policies.factory', get_policy_class=lambda kind: policy,
           make_pre_post_processors=processors)
    return policy


class OpenpiPolicy:
    """Answers as openpi's Policy does."""

    def __init__(self):
        self.asked = []

    def infer(self, obs, *, noise=None):
        self.asked.append(obs)
        actions = np.full((10, 8), 1.5, np.float32)
        if noise is not None:
            actions[:, :7] = noise[:, :7]
        return {'actions': actions, 'state': np.zeros(8), 'policy_timing': {'infer_ms': 1.0}}


def openpi(monkeypatch, kind='pi05'):
    """Install the stand-in of openpi; return its policy and what it was made with."""
    policy, made = OpenpiPolicy(), []
    model = types.SimpleNamespace(model_type=types.SimpleNamespace(value=kind),
                                  action_horizon=10, action_dim=32)

    def create(config, checkpoint, *, default_prompt=None):
        made.append((config.name, checkpoint, default_prompt))
        return policy

    module(monkeypatch, 'openpi.training.config',
           get_config=lambda name: types.SimpleNamespace(name=name, model=model))
    module(monkeypatch, 'openpi.policies.policy_config', create_trained_policy=create)
    return policy, made
