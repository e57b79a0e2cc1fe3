"""
What is shipped: a lock file with hashes, an SBOM, and the licences of all run-time packages.

    supply_chain.py --lock     requirements.lock from requirements.txt, -ros and -server, for
                               Python 3.10 to 3.13 on every platform
    supply_chain.py --sbom     install the lock file into build/locked, checking every hash; write
                               build/sbom.cdx.json (CycloneDX) and .ci/licences.txt
    supply_chain.py --check    compare pins, lock file and licences; needs no network
"""

import argparse
import json
import re
import subprocess
import sys
from importlib.metadata import Distribution, PackageMetadata, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ('requirements.txt', 'requirements-ros.txt', 'requirements-server.txt')
LOCK, LICENCES = ROOT / 'requirements.lock', ROOT / '.ci' / 'licences.txt'
TOOLS, LOCKED = ROOT / 'build' / 'tools', ROOT / 'build' / 'locked'
SBOM = ROOT / 'build' / 'sbom.cdx.json'
PIN = re.compile(r'^([A-Za-z0-9_.\-]+)(?:\[[^]]*])?==([^\s;\\]+)', re.MULTILINE)

# A licence is allowed when each part of it is; docs/licences.md says what each asks for.
ALLOWED = frozenset((
    'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'MIT', 'MIT-0', 'MIT-CMU', 'ISC', 'Zlib',
    'CC0-1.0', 'PSF-2.0', 'MPL-2.0', 'LGPL-3.0-only', 'LGPL-2.1-or-later', 'HPND', 'NCSA',
    'Unlicense', 'any-OSI', 'LLVM-exception'))
# What the metadata of packages says in words of its own, or not at all.
SAID = {
    '3-Clause BSD License': 'BSD-3-Clause', 'BSD License': 'BSD-3-Clause', 'BSD': 'BSD-3-Clause',
    'Apache Software License': 'Apache-2.0', 'Apache License, Version 2.0': 'Apache-2.0',
    'Apache License 2.0': 'Apache-2.0', 'MIT License': 'MIT',
    'Apache Software License/BSD License': 'Apache-2.0 AND BSD-3-Clause',
    'MIT License/Apache Software License': 'MIT OR Apache-2.0',
    'BSD License/Apache Software License': 'BSD-3-Clause AND Apache-2.0',
    'Apache Software License/MIT License': 'Apache-2.0 OR MIT',
    'Mozilla Public License 2.0 (MPL 2.0)': 'MPL-2.0',
    'Python Software Foundation License': 'PSF-2.0',
    'GNU Lesser General Public License v2 or later (LGPLv2+)': 'LGPL-2.1-or-later'}
BY_NAME = {'empy': 'LGPL-2.1-or-later', 'docutils': 'BSD-2-Clause', 'h11': 'MIT',
           'colcon-package-information': 'Apache-2.0', 'setuptools': 'MIT'}
# Packages of other platforms and Pythons, which are not installed here.
ELSEWHERE = {
    'absl-py': 'Apache-2.0', 'async-timeout': 'Apache-2.0', 'colorama': 'BSD-3-Clause',
    'coloredlogs': 'MIT', 'etils': 'Apache-2.0', 'exceptiongroup': 'MIT',
    'greenlet': 'MIT AND PSF-2.0', 'humanfriendly': 'MIT', 'importlib-resources': 'Apache-2.0',
    'pyreadline3': 'BSD-3-Clause', 'tomli': 'MIT', 'tzdata': 'Apache-2.0',
    'zipp': 'MIT'}
# The wheels of ROS 2 state none; its packages are under these.
ROS = 'Apache-2.0 AND BSD-3-Clause'


def normal(name: str) -> str:
    """Return a package's name as indices compare it."""
    return re.sub(r'[-_.]+', '-', name).lower()


def pins(path: Path) -> set[tuple[str, str]]:
    """Return the (name, version) pairs of a requirements or lock file."""
    return {(normal(name), version) for name, version in PIN.findall(path.read_text())}


def tool(name: str) -> Path:
    """Return a program of build/tools, which is made when it is missing."""
    if not (TOOLS / 'bin' / name).exists():
        subprocess.run([sys.executable, '-m', 'venv', TOOLS], check=True)
        subprocess.run([TOOLS / 'bin' / 'pip', 'install', '-q', '-r',
                        ROOT / '.ci' / 'requirements-tools.txt'], check=True)
    return TOOLS / 'bin' / name


def lock() -> None:
    """Write the lock file; versions that it has already are kept."""
    subprocess.run([tool('uv'), 'pip', 'compile', '-q', '--universal', '--python-version', '3.10',
                    '--generate-hashes', '--no-emit-index-url', '--no-header', '--no-annotate',
                    *SOURCES, '-o', LOCK.name], cwd=ROOT, check=True)


def sbom() -> None:
    """Install the locked packages, check their hashes, write SBOM and licences."""
    program = tool('cyclonedx-py')
    subprocess.run([tool('uv'), 'venv', '-q', '--clear', '--python', sys.executable, LOCKED],
                   check=True)
    subprocess.run([tool('uv'), 'pip', 'sync', '-q', '--require-hashes', '--python',
                    LOCKED / 'bin' / 'python', LOCK], check=True)
    subprocess.run([program, 'environment', '--output-reproducible', '-o', SBOM,
                    LOCKED / 'bin' / 'python'], check=True)
    site = next((LOCKED / 'lib').glob('python*/site-packages'))
    found = {normal(one.metadata['Name']): licence_of(one)
             for one in distributions(path=[str(site)])}
    rows = {name: found.get(name) or ELSEWHERE.get(name, '?') for name, _ in pins(LOCK)}
    LICENCES.write_text(''.join(f'{name} {rows[name]}\n' for name in sorted(rows)))
    parts = len(json.loads(SBOM.read_text())['components'])
    sys.stdout.write(f'{SBOM.relative_to(ROOT)}: {parts} components\n')


def licence_of(one: Distribution) -> str:
    """Return the licence that a package's metadata states, as an SPDX expression."""
    name, about = normal(one.metadata['Name']), one.metadata
    if name in BY_NAME:
        return BY_NAME[name]
    classes = [text.split('::')[-1].strip() for text in about.get_all('Classifier') or []
               if text.startswith('License')]
    words = (_field(about, 'License-Expression') or '/'.join(classes)
             or _field(about, 'License').split('\n')[0])
    return SAID.get(words, words) or (ROS if name.startswith('ros-') else '?')


def _field(about: PackageMetadata, name: str) -> str:
    return ''.join((about.get_all(name) or [''])[:1])


def read_licences() -> dict[str, str]:
    """Return the licence of each package in the list."""
    return dict(line.split(' ', 1) for line in LICENCES.read_text().splitlines())


def problems() -> list[str]:
    """Return what is wrong with lock file and licences, as sentences."""
    text = LOCK.read_text()
    locked = pins(LOCK)
    said = [f'{name}=={version} of {source} is not in {LOCK.name}: make lock'
            for source in SOURCES for name, version in sorted(pins(ROOT / source) - locked)]
    said += [f'{LOCK.name}: {block.split()[0]} has no hash' for block in
             re.split(r'\n(?=[A-Za-z0-9])', text.strip()) if '--hash=sha256:' not in block]
    if '://' in text:
        said.append(f'{LOCK.name} names an address')
    listed = read_licences()
    said += [f'{name} is not in .ci/licences.txt: make sbom'
             for name in sorted({name for name, _ in locked} - set(listed))]
    for name, words in sorted(listed.items()):
        parts = re.split(r' AND | OR | WITH ', words.replace('(', '').replace(')', ''))
        said += [f'{name}: the licence {part!r} is not one of those allowed in '
                 '.ci/supply_chain.py' for part in parts if part not in ALLOWED]
    for one in distributions():
        name = normal(one.metadata['Name'])
        if (name, one.version) in locked and licence_of(one) not in ('?', listed.get(name)):
            said.append(f'{name} {one.version} is under {licence_of(one)}, listed is '
                        f'{listed.get(name)}: make sbom')
    return said


def main() -> int:
    """Do what is asked; the check's exit code is 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ('lock', 'sbom', 'check'):
        parser.add_argument(f'--{name}', action='store_true')
    args = parser.parse_args()
    if args.lock:
        lock()
    if args.sbom:
        sbom()
    said = problems() if args.check else []
    sys.stdout.write(''.join(f'{line}\n' for line in said))
    return 1 if said else 0


if __name__ == '__main__':
    sys.exit(main())
