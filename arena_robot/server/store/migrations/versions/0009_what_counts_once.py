"""
What counts once: notes of the relay that are written, and sessions that cannot count any more.

Sessions that waited before are looked at once more; those without hope are then marked.
"""

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'


def upgrade() -> None:
    """Apply."""
    op.create_table(
        'relay_notes',
        sa.Column('journal', sa.String(32), primary_key=True),
        sa.Column('session_id', sa.String(100), primary_key=True),
        sa.Column('slot', sa.String(10), primary_key=True),
        sa.Column('notes', sa.Integer(), nullable=False),
        sa.Column('written_ns', sa.BigInteger(), nullable=False))
    op.add_column('sessions', sa.Column('final', sa.Boolean(), nullable=False,
                                        server_default=sa.false()))


def downgrade() -> None:
    """Take back."""
    op.drop_column('sessions', 'final')
    op.drop_table('relay_notes')
