"""The finished sessions of an arena server as RoboArena's CSV tables."""

from pathlib import Path

from arena_robot.core.errors import DataError
from arena_robot.records.roboarena_files import table_paths, write_tables
from arena_robot.server.store.database import Database
from arena_robot.server.store.evaluations import finished_evaluations


def export_tables(database: Database, folder: Path) -> tuple[Path, Path]:
    """Write the finished sessions as tables into a folder; never overwrite."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in table_paths(folder):
        if path.exists():
            raise DataError(f'{path} exists; choose another folder')
    return write_tables(folder, finished_evaluations(database))
