"""
Generate Python code beside every .proto file in arena_robot.

The code is committed, so that the package can be used without the compiler. The compiler lets it
refuse every library older than itself; here it takes the oldest that pyproject.toml allows, with
which `make install-check` runs it: who has LeRobot or a model in the same Python has old ones.
``--check`` changes nothing and fails when the committed code does not match the sources.
"""

import argparse
import re
import sys
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'arena_robot'


def generate(sources: list[Path], out: Path) -> None:
    """Compile ``sources``, named from the checkout's root, into ``out``."""
    names = [str(source.relative_to(ROOT)) for source in sources]
    known = str(files('grpc_tools') / '_proto')
    code = protoc.main(['protoc', f'-I{ROOT}', f'-I{known}', f'--python_out={out}',
                        f'--pyi_out={out}', f'--grpc_python_out={out}', *names])
    if code:
        raise SystemExit(f'protoc failed with code {code} on {", ".join(names)}')


def oldest(package: str) -> str:
    """Return the oldest version of a package that pyproject.toml allows."""
    project = (ROOT / 'pyproject.toml').read_text(encoding='utf-8')
    found = re.search(rf"'{package}>=([\d.]+)", project)
    assert found, f'pyproject.toml asks for no version of {package}'
    return found[1]


def for_oldest(code: str) -> str:
    """Return generated code that takes the oldest libraries that pyproject.toml allows."""
    protobuf = oldest('protobuf')
    major, minor, patch = protobuf.split('.')
    for pattern, number in (
            (r"(?<=GRPC_GENERATED_VERSION = ')[\d.]+", oldest('grpcio')),
            (r'(?<=Protobuf Python Version: )[\d.]+', protobuf),
            (r'(?<=Domain\.PUBLIC,\n)    \d+,\n    \d+,\n    \d+,',
             f'    {major},\n    {minor},\n    {patch},')):
        code = re.sub(pattern, number, code)
    return code


def products() -> dict[Path, str]:
    """Return the content of every generated file by its path in the checkout."""
    sources = sorted(PACKAGE.rglob('*.proto'))
    if not sources:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        generate(sources, Path(folder))
        made = sorted(p for p in Path(folder).rglob('*') if p.is_file())
        return {ROOT / path.relative_to(folder): for_oldest(path.read_text(encoding='utf-8'))
                for path in made if path.suffix in ('.py', '.pyi')}


def stale(wanted: dict[Path, str]) -> list[Path]:
    """Return the generated files that are missing, differ, or whose source no longer exists."""
    there = {path for ending in ('*_pb2.py', '*_pb2.pyi', '*_pb2_grpc.py')
             for path in PACKAGE.rglob(ending)}
    differ = {path for path, text in wanted.items()
              if not path.exists() or path.read_text(encoding='utf-8') != text}
    return sorted(differ | (there - set(wanted)))


def main() -> int:
    """Write the generated files, or with ``--check`` only compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--check', action='store_true', help='compare only, and fail on a change')
    args = parser.parse_args()
    wanted = products()
    changed = stale(wanted)
    for path in changed:
        name = path.relative_to(ROOT)
        if args.check:
            print(f'{name} does not match its .proto; run `make proto` and commit',
                  file=sys.stderr)
        elif path in wanted:
            path.write_text(wanted[path], encoding='utf-8')
            print(f'wrote {name}')
        else:
            path.unlink()
            print(f'removed {name}, its .proto is gone')
    if not args.check:
        print(f'{len(wanted)} files are current, by grpcio-tools {version("grpcio-tools")}')
    return 1 if args.check and changed else 0


if __name__ == '__main__':
    sys.exit(main())
