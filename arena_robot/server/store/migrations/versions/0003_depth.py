"""Stations whose cameras measure depth."""

import sqlalchemy as sa
from alembic import op

revision = '0003'
down_revision = '0002'


def upgrade() -> None:
    """Add the column: no station of before has said so."""
    op.add_column('stations', sa.Column('depth', sa.Boolean, nullable=False,
                                        server_default=sa.false()))
