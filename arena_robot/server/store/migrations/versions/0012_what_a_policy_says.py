"""The private authority of a policy, what its owner stated, and what its server says."""

import sqlalchemy as sa
from alembic import op

revision = '0012'
down_revision = '0011'

COLUMNS = ('tls_ca', 'stated', 'spec')


def upgrade() -> None:
    """Apply."""
    for column in COLUMNS:
        op.add_column('policies', sa.Column(column, sa.Text(), nullable=False, server_default=''))


def downgrade() -> None:
    """Take back."""
    for column in COLUMNS:
        op.drop_column('policies', column)
