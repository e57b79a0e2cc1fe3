"""
Serve a small policy with the unmodified policy server of openpi or of RoboArena, from checkouts.

Not a part of the package and not used by it: `peers_session.py` and `peers_blind.py` start it.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

KINDS = ('openpi', 'roboarena')


def add_peers(folder):
    """Make the peers' code importable: checkouts named openpi and roboarena in ``folder``."""
    for part in ('openpi/src', 'openpi/packages/openpi-client/src', 'roboarena'):
        place = Path(folder, part)
        if not place.is_dir():
            raise SystemExit(f'{place} is not there: clone openpi and roboarena into {folder}')
        sys.path.insert(0, str(place))


class SmallPolicy:
    """
    Velocities that depend on joints, pictures and prompt, drawn at random when it samples.

    ``infer`` and ``reset`` are called as both peers call theirs.
    """

    def __init__(self, samples, actions=8):
        self._random = np.random.default_rng() if samples else None
        self._actions = actions
        self.queries = 0

    def infer(self, request):
        """Return a chunk of ``actions``."""
        light = sum(float(value.mean()) for key, value in request.items() if 'image' in key)
        word = sum(map(ord, request.get('prompt', ''))) % 97
        joints = np.asarray(request.get('observation/joint_position', np.zeros(7)))
        mean = np.append(0.3 * joints + 1e-4 * (light + word), 0.5)
        shape = self._actions, 8
        noise = self._random.normal(0.0, 0.05, shape) if self._random else np.zeros(shape)
        self.queries += 1
        return {'actions': np.clip(mean + noise, -1.0, 1.0) * np.append(np.ones(7), 0.5)}

    def reset(self, reset_info=None):
        """Forget nothing: it has no state."""


def server(kind, policy, port):
    """Return the peer's own server of a policy."""
    if kind == 'openpi':
        from openpi.serving.websocket_policy_server import WebsocketPolicyServer
        return WebsocketPolicyServer(policy, '127.0.0.1', port, metadata={})
    from roboarena.policy_server import PolicyServerConfig, WebsocketPolicyServer
    config = PolicyServerConfig(needs_session_id=True, action_space='joint_velocity')
    return WebsocketPolicyServer(policy, config, '127.0.0.1', port)


def main():
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('kind', choices=KINDS)
    parser.add_argument('--peers', required=True)
    parser.add_argument('--port', type=int, required=True)
    parser.add_argument('--samples', action='store_true')
    parser.add_argument('--actions', type=int, default=8, help='of a chunk')
    args = parser.parse_args()
    add_peers(args.peers)
    policy = SmallPolicy(args.samples, args.actions)
    try:
        server(args.kind, policy, args.port).serve_forever()
    except KeyboardInterrupt:
        print(f'answered {policy.queries} queries', flush=True)


if __name__ == '__main__':
    main()
