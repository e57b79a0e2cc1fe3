"""
Servers and clients of openpi and RoboArena as they are, from their submission to a blind session.

    git clone https://github.com/Physical-Intelligence/openpi peers/openpi
    git clone https://github.com/robo-arena/roboarena peers/roboarena
    .venv/bin/python bench/peers_session.py --peers peers

Starts four unmodified policy servers (each peer's, one policy deterministic, one sampling) behind
nginx, which asks for a token and speaks TLS, as their own servers do neither. Then, with the
commands that people use: `arena server`, `arena policy submit`, the simulated station,
`arena session --auto` until each policy was in a session. At last the peers' clients query
`arena policy serve --protocol openpi`. Needs nginx; prints a line for each step and ends with 1
when one failed.
"""

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trustme
from peers_servers import KINDS

from arena_robot.core.process import Process
from arena_robot.demo.arena import OWNER, DemoArena, DemoStation, arena_command
from arena_robot.demo.plan import Ports
from arena_robot.demo.processes import Processes
from arena_robot.demo.run import own_domain, ports

HERE = Path(__file__).parent
TOKEN = 'a-token-of-the-owner'
WORDS = {'openpi': 'Api-Key', 'roboarena': 'Bearer'}
QUERY = {'openpi': '?action_space=joint_velocity', 'roboarena': '?auth=bearer'}
TASK, SEED, MAX_STEPS, MOST_SESSIONS = 'lift_cube', 3, 30, 12
TAIL = 300    # characters of what a session printed
README_PORT = 8000
NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/cert.pem;
    ssl_certificate_key {folder}/key.pem;
    {places}
  }}
}}
"""
PLACE = """
    location = /{name} {{
      if ($http_authorization != "{word} {token}") {{ return 401; }}
      proxy_pass http://127.0.0.1:{port}/;
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
      proxy_read_timeout 600s;
    }}
"""
failures = []


def shown(good, text):
    """Print a step with its outcome."""
    print(f'  {"ok  " if good else "FAIL"}  {text}', flush=True)
    if not good:
        failures.append(text)


def arena(*words, timeout_s=300.0, **variables):
    """Run an `arena` verb; return its exit code and what it printed."""
    done = subprocess.run(arena_command(*words), capture_output=True, text=True, check=False,
                          timeout=timeout_s, env={**os.environ, **variables})
    return done.returncode, done.stdout + done.stderr


def members():
    """Return (name, kind, samples) of the four policies."""
    return [(f'{kind}-{"sampling" if samples else "repeating"}', kind, samples)
            for kind in KINDS for samples in (False, True)]


def start_peers(peers, folder, processes, found):
    """Start the four servers and nginx before them; return nginx's port."""
    port, *own = found
    places = []
    for (name, kind, samples), at in zip(members(), own, strict=True):
        command = [sys.executable, str(HERE / 'peers_servers.py'), kind, '--peers', str(peers),
                   '--port', str(at), *(['--samples'] if samples else [])]
        processes.start(Process(name, command, folder / f'{name}.log'), needed=True)
        places.append(PLACE.format(name=name, word=WORDS[kind], token=TOKEN, port=at))
    authority = trustme.CA()
    issued = authority.issue_cert('127.0.0.1')
    issued.private_key_pem.write_to_path(str(folder / 'key.pem'))
    issued.cert_chain_pems[0].write_to_path(str(folder / 'cert.pem'))
    authority.cert_pem.write_to_path(str(folder / 'ca.pem'))
    config = folder / 'nginx.conf'
    config.write_text(NGINX.format(folder=folder, port=port, places=''.join(places)))
    (folder / 'policy.token').write_text(TOKEN)
    processes.start(Process('nginx', ['nginx', '-c', str(config)], folder / 'nginx.out'),
                    needed=True)
    for at in found:
        wait_for_port(at)
    return port


def wait_for_port(port, seconds=30.0):
    """Return when a server listens."""
    end_s = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(('127.0.0.1', port), 1.0).close()
        except OSError:
            if time.monotonic() > end_s:
                raise SystemExit(f'nothing listens on port {port}') from None
            time.sleep(0.1)


def submit(server, port, folder):
    """Submit the four policies with the command; each must get into the pool."""
    for name, kind, _ in members():
        address = f'openpis://127.0.0.1:{port}/{name}{QUERY[kind]}'
        started = time.monotonic()
        code, said = arena(
            'policy', 'submit', name, address, '--server', server.target, '--token-file',
            folder / 'server' / f'{OWNER}.token', '--policy-token-file', folder / 'policy.token',
            '--policy-tls-ca', folder / 'ca.pem', '--wait', '300')
        took = time.monotonic() - started
        shown(code == 0, f'submit {address}: {said.strip()} '
                                                     f'({took:.0f} s)')
    code, said = arena('policy', 'mine', '--server', server.target, '--token-file',
                       folder / 'server' / f'{OWNER}.token')
    for name, _, _ in members():
        line = next((row for row in said.splitlines() if name in row), 'not listed')
        shown(re.search(r'\bpool\b', line), f'policy mine: {" ".join(line.split())}')


class Station(DemoStation):
    """The station of the demonstration, with a recorder that also derives the episode's files."""

    def recorder(self):
        """Return the recorder."""
        return self._node('recorder_node', {'recorder_node': {
            'output_dir': str(self.sessions), 'min_free_disk': 0.5}})


def sessions(server, station, processes):
    """Run blind sessions until every policy was in one."""
    processes.start(station.simulator(TASK, SEED), station.recorder(),
                    station.session(server.target, server.station_token()))
    left = {name for name, _, _ in members()}
    for number in range(1, MOST_SESSIONS + 1):
        code, said = arena('session', '--auto', '--wait', '90', '--instruction', 'lift the cube',
                           ARENA_EVALUATOR_TOKEN=server.evaluator_token)
        text = ' '.join(said.split())
        both = [name for name, _, _ in members() if re.search(rf'\b{name}\b', text)]
        shown(code == 0 and len(both) == 2 and 'matches' in text,
              f'session {number}: … {text[-TAIL:]}')
        left -= set(both)
        if not left or code:
            break
    shown(not left, f'policies without a session: {", ".join(sorted(left)) or "none"}')
    folders = sorted(path.parent for path in station.sessions.glob('*/session.json'))
    code, said = arena('episode', 'check', *folders)
    shown(code == 0, f'arena episode check of {len(folders)} sessions: '
                     f'{said.strip().splitlines()[-1]}')


def python(peers, *words):
    """Run a peer's own program; return its exit code and what it printed."""
    paths = [Path(peers, 'roboarena'), Path(peers, 'openpi/packages/openpi-client/src')]
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True,
                          check=False, timeout=60.0, env={
                              **os.environ, 'PYTHONPATH': os.pathsep.join(map(str, paths))})
    return done.returncode, (done.stdout + done.stderr).strip()


OPENPI_CLIENT = """
import numpy as np
from openpi_client import image_tools, websocket_client_policy
client = websocket_client_policy.WebsocketClientPolicy('127.0.0.1', {port})
image = image_tools.resize_with_pad(np.zeros((720, 1280, 3), np.uint8), 224, 224)
for _ in range(3):
    reply = client.infer({{
        'observation/exterior_image_1_left': image, 'observation/wrist_image_left': image,
        'observation/joint_position': np.zeros(7), 'observation/gripper_position': np.zeros(1),
        'prompt': 'lift the cube'}})
print(reply['actions'].shape, sorted(client.get_server_metadata()))
"""


def clients(peers, folder, processes):
    """Query a policy of ours with the peers' clients, at the port that theirs are written for."""
    try:
        socket.create_server(('127.0.0.1', README_PORT)).close()
    except OSError:
        return shown(False, f'port {README_PORT}, which the examples use, is taken')
    serving = Process('echo', arena_command('policy', 'serve', 'echo', '--protocol', 'openpi',
                                            '--port', README_PORT), folder / 'echo.log')
    processes.start(serving)
    serving.wait_for('serving')
    code, said = python(peers, '-c', OPENPI_CLIENT.format(port=README_PORT))
    shown(code == 0, f"openpi_client's WebsocketClientPolicy: {said.splitlines()[-1]}")
    code, said = python(peers, Path(peers, 'roboarena/roboarena/policy_client.py'))
    shown(code == 0 and 'Actions received' in said,
          "RoboArena's policy_client.py of its README: " + ' '.join(
              said[max(0, said.find('Actions received')):].split())[:TAIL])
    code, said = python(peers, Path(peers, 'roboarena/scripts/test_policy_server.py'))
    # Its last line calls reset() without the argument that its own client needs.
    shown(code == 0 or said.endswith("missing 1 required positional argument: 'reset_info'"),
          f"RoboArena's test_policy_server.py of its README: {said.splitlines()[-1]}")
    return None


def main():
    """Run all steps in a new folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--peers', type=Path, default=os.environ.get('ARENA_PEERS'),
                        help='folder with checkouts of both peers (default: $ARENA_PEERS)')
    parser.add_argument('--speed', type=float, default=0.5, metavar='X',
                        help='simulated per real second; less on a busy machine (default 0.5)')
    parser.add_argument('--keep', action='store_true', help='keep the folder of logs and data')
    args = parser.parse_args()
    if args.peers is None:
        raise SystemExit('--peers DIR or ARENA_PEERS must name the checkouts')
    if not shutil.which('nginx'):
        raise SystemExit('nginx is missing: apt-get install nginx-light')
    own_domain()
    folder = Path(tempfile.mkdtemp(prefix='arena-peers-'))
    logs = folder / 'logs'
    free = ports(None, len(members()) + 1)
    with Processes(folder) as processes:
        port = start_peers(args.peers.absolute(), folder, processes, free.policies)
        server = DemoArena(folder / 'server', logs,
                           Ports(free.server, free.site, free.console, ()), (), SEED)
        server.start(processes)
        server.register()
        print('unmodified servers, token and TLS by nginx')
        submit(server, port, folder)
        sessions(server, Station(folder, logs, args.speed, MAX_STEPS), processes)
        print('unmodified clients')
        clients(args.peers.absolute(), folder, processes)
    if args.keep or failures:
        print(f'logs: {folder}')
    else:
        shutil.rmtree(folder)
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
