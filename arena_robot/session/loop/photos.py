"""Start and reset photographs, stored beside the journal."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from arena_robot.core.errors import DataError, SessionError
from arena_robot.core.files import write_bytes
from arena_robot.core.jpeg import PHOTO_QUALITY, from_jpeg, to_jpeg
from arena_robot.core.observation import Pixels


def keep_photos(folder: Path, images: Mapping[str, Pixels]) -> dict[str, Pixels]:
    """
    Write one ``<view>.jpg`` per RGB image and return them as they are read back.

    Raises SessionError when they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, pixels in images.items():
        path = folder / f'{name}.jpg'
        try:
            write_bytes(path, to_jpeg(pixels, PHOTO_QUALITY))
        except OSError as error:
            raise SessionError(f'cannot write the photograph {path}: {error.strerror}; '
                               'is the disk full?') from error
    return read_photos(folder)


def read_photos(folder: Path) -> dict[str, Pixels]:
    """Return the photographs in ``folder`` as RGB by view; none where there are none."""
    found = {}
    for path in sorted(folder.glob('*.jpg')):
        with suppress(DataError, OSError):
            found[path.stem] = from_jpeg(path.read_bytes())
    return found
