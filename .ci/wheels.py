#!/usr/bin/env python3
"""
Build what is published, into dist/: the package, and the ROS messages for machines without ROS.

    .ci/wheels.py [--tag manylinux_2_28_x86_64]

The messages' wheel holds arena_msgs and tf2_msgs as `make setup` built them, for this Python, and
works beside the ROS wheels that requirements-ros.txt pins. Its tag names this machine's system,
which an index refuses; the release's job builds in the image that the given tag stands for.
"""

import argparse
import base64
import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / 'dist'
PACKAGES = ('arena_msgs', 'tf2_msgs')
NEEDS = ('rclpy', 'builtin-interfaces', 'geometry-msgs', 'sensor-msgs', 'std-msgs')
# What only a build with these messages reads.
LEFT_OUT = re.compile(r'__pycache__|\.egg-info|/cmake/|\.c$|/share/colcon-core/|/include/'
                      r'|\.(ba|z)?sh$|\.dsv$|/resource_index/parent_prefix_path/')


def version() -> str:
    """Return the version of both wheels."""
    text = (ROOT / 'arena_robot' / '__init__.py').read_text(encoding='utf-8')
    return text.partition("__version__ = '")[2].partition("'")[0]


def pins() -> Iterator[str]:
    """Yield the ROS wheels whose binary interface the messages were built against."""
    text = (ROOT / 'requirements-ros.txt').read_text(encoding='utf-8')
    for name in NEEDS:
        yield from re.findall(rf'^ros-(?:jazzy-)?{name}==[\d.]+', text, re.MULTILINE)


def message_files(data: str) -> Iterator[tuple[str, Path]]:
    """Yield the name in the wheel and the path of each file of the built messages."""
    for package in PACKAGES:
        prefix = ROOT / 'install' / package
        if not prefix.is_dir():
            raise SystemExit(f'{prefix} is missing: run make setup first')
        for path in sorted(prefix.rglob('*')):
            place = path.relative_to(prefix).as_posix()
            if path.is_file() and not LEFT_OUT.search(f'/{place}'):
                _, inside, module = place.partition('site-packages/')
                yield module if inside else f'{data}/data/{place}', path


def write_messages(tag: str) -> Path:
    """Write the wheel of the messages and return its path."""
    name, number = 'droid_arena_msgs', version()
    python = f'cp{sys.version_info[0]}{sys.version_info[1]}'
    info, tags = f'{name}-{number}.dist-info', f'{python}-{python}-{tag}'
    needs = ''.join(f'Requires-Dist: {pin}\n' for pin in pins())
    texts = {
        f'{info}/METADATA': f'Metadata-Version: 2.1\nName: {name.replace("_", "-")}\n'
                            f'Version: {number}\nSummary: ROS 2 Jazzy messages of arena_robot.\n'
                            f'License: Apache-2.0\nRequires-Python: =={python[2]}.{python[3:]}.*\n'
                            f'{needs}',
        f'{info}/WHEEL': f'Wheel-Version: 1.0\nGenerator: arena_robot\n'
                         f'Root-Is-Purelib: false\nTag: {tags}\n'}
    files = {place: path.read_bytes() for place, path in message_files(f'{name}-{number}.data')}
    files.update((place, text.encode()) for place, text in texts.items())
    record = ''.join(f'{place},sha256={digest(content)},{len(content)}\n'
                     for place, content in files.items())
    target = DIST / f'{name}-{number}-{tags}.whl'
    with zipfile.ZipFile(target, 'w', zipfile.ZIP_DEFLATED) as wheel:
        for place, content in files.items():
            wheel.writestr(place, content)
        wheel.writestr(f'{info}/RECORD', f'{record}{info}/RECORD,,\n')
    return target


def digest(content: bytes) -> str:
    """Return the SHA-256 as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()


def write_package() -> Path:
    """Build the package's wheel from a copy of the files that git knows, and return its path."""
    copy = ROOT / 'build' / 'wheel'
    shutil.rmtree(copy, ignore_errors=True)
    names = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                           cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split('\0')):
        if not name.startswith(('test/', 'docs/', 'bench/', '.')) and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    subprocess.run([sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps', '--wheel-dir',
                    DIST, '--disable-pip-version-check', copy], check=True)
    return next(DIST.glob(f'droid_arena-{version()}-*.whl'))


def main() -> int:
    """Build both wheels and print their names and sizes."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tag', default=re.sub(r'\W', '_', sysconfig.get_platform()),
                        help='platform of the messages (default: %(default)s)')
    args = parser.parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for path in (write_package(), write_messages(args.tag)):
        print(f'{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB')
    return 0


if __name__ == '__main__':
    sys.exit(main())
