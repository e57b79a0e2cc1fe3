"""
Where databases of version 0.1.0 start; a new database is made from the tables of ``schema.py``.

A later migration changes a database that has the tables of the version before it. The schema of
0.1.0 is kept in ``test/data/0.1.0``, for SQLite and for PostgreSQL.
"""

revision = '0001'
down_revision = None


def upgrade() -> None:
    """Change nothing: this is the first schema."""
