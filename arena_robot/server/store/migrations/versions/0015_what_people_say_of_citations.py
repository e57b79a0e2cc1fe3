"""What people say of the citations of a report."""

import sqlalchemy as sa
from alembic import op

revision = '0015'
down_revision = '0014'


def upgrade() -> None:
    """Apply."""
    op.create_table(
        'citation_checks', sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('policy', sa.String(200), nullable=False),
        sa.Column('number', sa.Integer(), nullable=False),
        sa.Column('place', sa.String(40), nullable=False),
        sa.Column('holds', sa.Boolean(), nullable=False),
        sa.Column('actor', sa.String(200), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_citation_checks'))
    op.create_index('ix_citation_checks_policy_number', 'citation_checks', ['policy', 'number'])


def downgrade() -> None:
    """Take back."""
    op.drop_table('citation_checks')
