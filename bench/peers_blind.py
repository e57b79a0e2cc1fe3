"""
Clients of openpi and RoboArena as they are, and `arena session --sim`, through `arena blind`.

    git clone https://github.com/Physical-Intelligence/openpi peers/openpi
    git clone https://github.com/robo-arena/roboarena peers/roboarena
    python3.11 -m venv peers/env
    peers/env/bin/pip install 'pandas<2' 'numpy<2' 'moviepy<2' tyro tqdm pillow websockets \
        msgpack typing_extensions dm-tree
    .venv/bin/python bench/peers_blind.py --peers peers

Each study has two policies on the peer's own server. openpi's is run by examples/droid/main.py,
which needs the libraries of its time and a robot: `droid.robot_env` is a fake arm of ten lines.
RoboArena publishes a client without a loop, so a loop of ten lines calls it. The page's buttons
are pressed over HTTP. Prints a line for each step and ends with 1 when one failed.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from peers_servers import KINDS
from peers_session import wait_for_port

from arena_robot.blind.trials import read_study
from arena_robot.demo.run import own_domain

HERE = Path(__file__).parent
INSTRUCTION, STEPS = 'put the cup in the bowl', 30
ROUNDS = 1      # two trials; each study takes a few seconds
ROBOT = """
import numpy as np

class RobotEnv:
    def __init__(self, action_space, gripper_action_space):
        self.joints = np.zeros(7)

    def get_observation(self):
        picture = np.full((180, 320, 4), 90, np.uint8)
        return {'image': {f'{name}_left': picture for name in ('one', 'two', 'wrist')},
                'robot_state': {'cartesian_position': np.zeros(6), 'gripper_position': 0.0,
                                'joint_positions': self.joints.tolist()}}

    def step(self, action):
        assert action.shape == (8,) and (abs(action) <= 1).all()
        self.joints = self.joints + action[:7] / 15

    def reset(self):
        self.joints = np.zeros(7)
"""
LOOP = """
import sys
import numpy as np
from roboarena.policy_client import WebsocketClientPolicy
client = WebsocketClientPolicy('127.0.0.1', int(sys.argv[1]))
client.reset({})
picture = np.zeros((224, 224, 3), np.uint8)
for _ in range(4):
    reply = client.infer({
        'observation/exterior_image_0_left': picture, 'observation/wrist_image_left': picture,
        'observation/joint_position': np.zeros(7), 'observation/gripper_position': np.zeros(1),
        'prompt': 'put the cup in the bowl', 'session_id': 'one'})
actions = reply['actions'] if isinstance(reply, dict) else reply
print('4 chunks of', np.shape(actions), sorted(client.get_server_metadata()))
"""
failures = []


def shown(good, text):
    """Print a step with its outcome."""
    print(f'  {"ok  " if good else "FAIL"}  {text}', flush=True)
    if not good:
        failures.append(text)


@contextlib.contextmanager
def running(command, log, **more):
    """Run a program until the block ends; its words go to a file."""
    with Path(log).open('w') as file, subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, **more) as process:
        try:
            yield process
        finally:
            process.terminate()


def printed(log, pattern, seconds=40.0):
    """Return what a program printed in place of the group of ``pattern``."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        if match := re.search(pattern, log.read_text()):
            return match[1]
        time.sleep(0.1)
    raise SystemExit(f'{log} has no {pattern}: {log.read_text()[-800:]}')


def press(page, path='move', **words):
    """Press a button of the page; without words read a part of it."""
    data = json.dumps(words).encode() if words else None
    request = urllib.request.Request(f'{page}api/{path}', data,
                                     {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=30.0) as reply:
        return json.load(reply)


@contextlib.contextmanager
def study(stack_folder, peers, kind, ports):
    """Serve two policies by a peer's server and `arena blind` before them; yield page and log."""
    with contextlib.ExitStack() as stack:
        for number, port in enumerate(ports):
            stack.enter_context(running(
                [sys.executable, str(HERE / 'peers_servers.py'), kind, '--peers', str(peers),
                 '--port', str(port), '--actions', '10', *(['--samples'] if number else [])],
                stack_folder / f'server_{number}.log'))
            wait_for_port(port)
        log = stack_folder / 'blind.log'
        stack.enter_context(running(
            [sys.executable, '-m', 'arena_robot.cli.main', 'blind',
             *(f'{name}=openpi://127.0.0.1:{port}'
               for name, port in zip(('azure', 'olive'), ports, strict=True)),
             '--instruction', INSTRUCTION, '--rounds', str(ROUNDS), '--folder', 'study',
             '--port', '0', '--grpc-port', '0', '--page-port', '0', '--page-host', '127.0.0.1'],
            log, cwd=stack_folder,
            env={**os.environ, 'XDG_DATA_HOME': str(stack_folder / 'seeds')}))
        yield printed(log, r'the page for the phone: (\S+)'), log


def openpi_rollout(peers, folder, port):
    """Run one rollout by openpi's main.py; return its exit code and its last words."""
    (folder / 'droid').mkdir(exist_ok=True)
    (folder / 'droid/robot_env.py').write_text(ROBOT)
    done = subprocess.run(
        [str(peers / 'env/bin/python'), str(peers / 'openpi/examples/droid/main.py'),
         '--left-camera-id', 'one', '--right-camera-id', 'two', '--wrist-camera-id', 'wrist',
         '--external-camera', 'left', '--remote-host', '127.0.0.1', '--remote-port', port,
         '--max-timesteps', str(STEPS)],
        input=f'{INSTRUCTION}\n100\nn\n', capture_output=True, text=True, cwd=folder,
        timeout=120.0, check=False, env={**os.environ, 'PYTHONPATH': os.pathsep.join(
            [str(folder), str(peers / 'openpi/packages/openpi-client/src')])})
    return done.returncode, (done.stdout if not done.returncode else done.stderr).strip()[-120:]


def roboarena_rollout(peers, folder, port):
    """Ask for four chunks by RoboArena's client; return the exit code and the last words."""
    (folder / 'loop.py').write_text(LOOP)
    done = subprocess.run(
        [str(peers / 'env/bin/python'), str(folder / 'loop.py'), port], capture_output=True,
        text=True, timeout=60.0, check=False,
        env={**os.environ, 'PYTHONPATH': str(peers / 'roboarena')})
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]


def trials(page, rollout):
    """Run all trials of a study from its page; ``rollout`` says how each ended."""
    while press(page, 'state')['phase'] == 'ready':
        press(page, move='start')
        rollout()
        press(page, move='end')
        if press(page, move='score', success=True, progress=100)['phase'] == 'judging':
            press(page, move='judge', preference='A', reason='faster')
    press(page, move='reveal')


def verdict(folder, log, kind):
    """Show what the study found and that nothing at the robot named a policy before the end."""
    results = read_study(folder / 'study').with_arms()
    shown(sorted(result.arm for result in results) == ['azure', 'olive'] * ROUNDS,
          f'{kind}: {len(results)} trials, each policy in as many')
    before = log.read_text().partition('evealed')[0]
    shown(not re.search('azure|olive', before), f'{kind}: the terminal named no policy')
    done = subprocess.run([sys.executable, '-m', 'arena_robot.cli.main', 'study', 'report',
                           str(folder / 'study')], capture_output=True, text=True, check=False)
    shown(done.returncode == 0, f'{kind}: {(done.stdout + done.stderr).strip().splitlines()[0]}')


def simulated_session(folder, log, page):
    """Run `arena session --sim --auto` whose two policies are both the router's address."""
    address = printed(log, r'gRPC: (\S+)', 5.0)
    (folder / 'policies.yaml').write_text(''.join(
        ['policies:\n', *(f'  - {{name: {name}, address: "{address}"}}\n' for name in 'xy')]))
    station = folder / 'session.log'
    with running([sys.executable, '-m', 'arena_robot.cli.main', 'session', '--sim', '--auto',
                  '--policies', str(folder / 'policies.yaml'), '--data', str(folder / 'data'),
                  '--max-steps', str(STEPS)], station,
                 env=os.environ) as process:
        def until_recorded():
            have = recorded(folder)
            while recorded(folder) == have and process.poll() is None:
                time.sleep(0.2)
        trials(page, until_recorded)
        code = process.wait(120.0)
    shown(code == 0, f'arena session --sim --auto: {station.read_text().strip()[-120:]!r}')


def recorded(folder):
    """Return how many rollouts the simulated station has recorded."""
    return len(list((folder / 'data').rglob('episode.json')))


def main():
    """Run the three studies."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('--peers', type=Path, required=True, help='folder with the checkouts')
    peers = parser.parse_args().peers.resolve()
    own_domain()
    rollouts = {'openpi': openpi_rollout, 'roboarena': roboarena_rollout}
    for number, kind in enumerate(KINDS):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with study(folder, peers, kind, (8421 + 2 * number, 8422 + 2 * number)) as (page, log):
                port = printed(log, r'openpi and RoboArena: ws://\S+:(\d+)')

                def rollout(kind=kind, folder=folder, port=port):
                    code, said = rollouts[kind](peers, folder, port)
                    shown(code == 0, f'{kind}: {said[-150:]}')
                trials(page, rollout)
            verdict(folder, log, kind)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with study(folder, peers, 'roboarena', (8431, 8432)) as (page, log):
            simulated_session(folder, log, page)
        verdict(folder, log, 'arena session --sim')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
