"""Existing evaluations into an arena server and out of it, as RoboArena's CSV tables."""

import dataclasses
from pathlib import Path

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DataError
from arena_robot.records.roboarena_csv import read_folder, table_paths, write_tables
from arena_robot.server.store.database import Database
from arena_robot.server.store.evaluations import (
    Imported,
    finished_evaluations,
    insert_evaluations,
)


def import_tables(database: Database, clock: Clock, folder: Path) -> Imported:
    """
    Load the tables of a folder into the database; ``episodes.csv`` may be missing.

    Rows that are wrong are left out and named in ``refused``. Raises DataError when a table
    cannot be read or holds no session that can be used; nothing is stored then.
    """
    data = read_folder(folder)
    done = insert_evaluations(database, clock, data.sessions)
    return dataclasses.replace(done, refused=data.refused)


def export_tables(database: Database, folder: Path) -> tuple[Path, Path]:
    """Write the finished sessions as tables into a folder; never overwrite."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in table_paths(folder):
        if path.exists():
            raise DataError(f'{path} exists; choose another folder')
    return write_tables(folder, finished_evaluations(database))
