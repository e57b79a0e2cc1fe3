"""Which extra of the package a verb needs, and what to say where its packages are missing."""

import re
import traceback
from collections.abc import Sequence

from arena_robot import DISTRIBUTION

# By the first words of a verb; the longest that fits decides.
EXTRAS = {
    'demo': 'all', 'blind': 'policy', 'doctor': 'station',
    'station': 'station', 'session': 'sim', 'console': 'station', 'calibrate': 'station',
    'episode': 'exports', 'episode replay': 'station',
    'driver': 'station', 'emulate': 'sim', 'policy': 'policy', 'policy rates': 'sim', 'sim': 'sim',
    'server': 'server', 'admin': 'server', 'credits': 'server', 'results': 'server',
    'login': 'policy',
    'rank': 'ranking', 'vote': 'ranking', 'game': 'ranking', 'report': 'exports',
    'compare': 'exports', 'study': 'exports', 'study report': 'policy',
    'audit': 'judges', 'judge': 'judges', 'skill': 'sim',
    'help': 'all', 'completion': 'ranking',
}


def extra_of(words: Sequence[str]) -> str:
    """Return the extra of the verb that was typed; `all` for other words."""
    line = ' '.join(words)
    fits = [verb for verb in EXTRAS if re.match(rf'{verb}\b', line)]
    return EXTRAS[max(fits, key=len)] if fits else 'all'


def what_is_missing(error: ImportError, words: Sequence[str]) -> str:
    """Return what to install when a module of ours misses a package; '' for any other error."""
    from importlib import metadata
    importing = [frame.f_globals.get('__name__', '') for frame, _ in
                 traceback.walk_tb(error.__traceback__) if 'importlib' not in
                 frame.f_code.co_filename]
    if not isinstance(error, ModuleNotFoundError) or not importing[-1].startswith('arena_robot'):
        return ''
    try:
        metadata.distribution(DISTRIBUTION)
        how = f"pip install '{DISTRIBUTION}[{extra_of(words)}]'"
    except metadata.PackageNotFoundError:
        how = 'run make setup in the folder of the clone'
    return f'arena {" ".join(words[:1])} needs {error.name}, which is not installed: {how}'
