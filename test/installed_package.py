"""A package as pip leaves it: a module and the metadata of its entry points, on sys.path."""

import importlib
from pathlib import Path


def install(folder: Path, monkeypatch, name: str, files: dict[str, str],
            entry_points: str = '') -> Path:
    """Write a distribution ``name`` with ``files`` into ``folder`` and put it on sys.path."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding='utf-8')
    info = folder / f'{name}-1.0.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n')
    (info / 'entry_points.txt').write_text(entry_points)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return folder
