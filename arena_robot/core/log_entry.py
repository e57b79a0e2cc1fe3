"""
An entry of a server's log: canonical JSON, so that the same facts have the same bytes.

The server writes entries; the station compares its own with what it sent; anybody reads them.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from arena_robot.core.errors import DataError
from arena_robot.core.verdict import Verdict, to_plain


def canonical(values: Mapping[str, Any]) -> str:
    """Return JSON whose bytes depend on nothing but the values."""
    return json.dumps(values, sort_keys=True, separators=(',', ':'), ensure_ascii=False,
                      allow_nan=False)


def read_canonical(text: str, where: str) -> dict[str, Any]:
    """Return the values of canonical JSON; DataError for another text, such as a name twice."""
    try:
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError('it is no object')
        if canonical(values) != text:
            raise ValueError('it is not canonical: a name twice, or another order or spelling')
    except (ValueError, RecursionError) as error:
        raise DataError(f'{where} cannot be read: {error}') from error
    return values


def said(verdict: Verdict) -> dict[str, Any]:
    """Return what a verdict says, as an entry has it: what was not said is left out."""
    return {name: value for name, value in to_plain(verdict).items() if value not in (None, '')}


def verdict_sha256(words: Mapping[str, Any]) -> str:
    """Return the hash by which a server promises to keep what :func:`said` returns."""
    return hashlib.sha256(canonical(words).encode()).hexdigest()


def objection(entry: Mapping[str, Any], session_id: str, commitment: str, prompt: str,
              verdict: Verdict) -> str:
    """Return in what an entry differs from the records of its station; '' when in nothing."""
    ours = {'session': session_id, 'commitment': commitment, 'prompt': prompt.strip(),
            'verdict': said(verdict)}
    wrong = [name for name, value in ours.items() if entry.get(name) != value]
    return f"the log has another {' and another '.join(wrong)} than the station sent" \
        if wrong else ''
