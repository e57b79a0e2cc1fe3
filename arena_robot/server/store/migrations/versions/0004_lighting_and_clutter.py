"""A verdict may say how bright and how cluttered the scene was."""

import sqlalchemy as sa
from alembic import op

revision = '0004'
down_revision = '0003'


def upgrade() -> None:
    """Apply."""
    op.add_column('sessions', sa.Column('lighting', sa.String(6), nullable=True))
    op.add_column('sessions', sa.Column('clutter', sa.String(8), nullable=True))


def downgrade() -> None:
    """Take back."""
    op.drop_column('sessions', 'clutter')
    op.drop_column('sessions', 'lighting')
