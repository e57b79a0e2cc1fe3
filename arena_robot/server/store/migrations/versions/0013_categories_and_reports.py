"""Who said of which kind a task is, and the reports on policies."""

import sqlalchemy as sa
from alembic import op

revision = '0013'
down_revision = '0012'


def upgrade() -> None:
    """Apply."""
    op.create_table(
        'categories', sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('session_id', sa.String(36), nullable=False),
        sa.Column('category', sa.String(100), nullable=False),
        sa.Column('method', sa.String(20), nullable=False),
        sa.Column('model', sa.String(200), nullable=False),
        sa.Column('prompt_version', sa.String(20), nullable=False),
        sa.Column('confidence', sa.Float(), nullable=True),
        sa.Column('scene', sa.Text(), nullable=False),
        sa.Column('actor', sa.String(200), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['session_id'], ['sessions.id'],
                                name='fk_categories_session_id_sessions'),
        sa.PrimaryKeyConstraint('id', name='pk_categories'))
    op.create_index('ix_categories_session_id', 'categories', ['session_id'])
    op.create_table(
        'reports', sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
        sa.Column('policy', sa.String(200), nullable=False),
        sa.Column('number', sa.Integer(), nullable=False),
        sa.Column('sessions', sa.Integer(), nullable=False),
        sa.Column('method', sa.String(300), nullable=False),
        sa.Column('content', sa.Text(), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_reports'),
        sa.UniqueConstraint('policy', 'number', name='uq_reports_policy_number'))


def downgrade() -> None:
    """Take back."""
    op.drop_table('reports')
    op.drop_index('ix_categories_session_id', 'categories')
    op.drop_table('categories')
