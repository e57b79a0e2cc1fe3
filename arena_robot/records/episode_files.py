"""The files of an episode's folder that are sent to an arena; other files are not sent."""

import re
from pathlib import Path

STEPS_FILE = 'steps.npz'
# The bag with its metadata, what `arena episode derive` makes of it, the station's scene match.
_NAMES = re.compile(r'metadata\.yaml|episode\.json|steps\.npz|scene_match\.json|'
                    r'[A-Za-z0-9_][A-Za-z0-9_.\-]{0,100}\.(mcap|mp4)')


def episode_files(folder: Path) -> list[Path]:
    """
    Return the files of an episode, by name.

    Temporary files, folders, hidden files and files with other names are not among them.
    """
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir()
                  if _NAMES.fullmatch(path.name) and path.is_file())
