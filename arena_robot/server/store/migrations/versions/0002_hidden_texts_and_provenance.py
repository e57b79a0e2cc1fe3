"""Texts of a session that a maintainer hides; where a policy comes from, as its owner says."""

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    """Add both columns, empty."""
    for table, column in (('sessions', 'hidden'), ('policies', 'provenance')):
        op.add_column(table, sa.Column(column, sa.Text, nullable=False, server_default=''))
