"""One public class name has one meaning in the package."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / 'arena_robot'


def shared_names(folder):
    """Return the files of each public top-level class name that more than one file defines."""
    found = defaultdict(list)
    for path in sorted(folder.rglob('*.py')):
        if not path.stem.endswith(('_pb2', '_pb2_grpc')):
            for node in ast.parse(path.read_text(encoding='utf-8')).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith('_'):
                    found[node.name].append(path.relative_to(folder).as_posix())
    return {name: files for name, files in found.items() if len(files) > 1}


def test_no_two_public_classes_share_a_name():
    assert not shared_names(PACKAGE)


def test_a_shared_name_is_found(tmp_path):
    (tmp_path / 'one.py').write_text('class Gate:\n    pass\n\n\nclass _Own:\n    pass\n')
    (tmp_path / 'two.py').write_text('class Gate:\n    pass\n\n\nclass _Own:\n    pass\n')
    (tmp_path / 'wire_pb2.py').write_text('class Gate:\n    pass\n')
    assert shared_names(tmp_path) == {'Gate': ['one.py', 'two.py']}
