"""The append-only log of what counts; see server/transparency."""

import sqlalchemy as sa
from alembic import op

revision = '0007'
down_revision = '0006'

TABLES = ('log',)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        'log', sa.Column('number', sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column('session_id', sa.String(36), nullable=False),
        sa.Column('body', sa.Text(), nullable=False),
        sa.Column('created_ns', sa.BigInteger(), nullable=False))
    op.create_index('ix_log_session_id', 'log', ['session_id'])
    for table in TABLES:
        _refuse_changes(table)


def _refuse_changes(table: str) -> None:
    words = f'{table} is append-only'
    if op.get_bind().dialect.name == 'postgresql':
        op.execute(f"""CREATE FUNCTION {table}_refuse() RETURNS trigger AS $$
            BEGIN RAISE EXCEPTION '{words}'; END $$ LANGUAGE plpgsql""")
        op.execute(f"""CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION {table}_refuse()""")
        return
    for verb in ('UPDATE', 'DELETE'):
        op.execute(f"""CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}
            BEGIN SELECT RAISE(ABORT, '{words}'); END""")


def downgrade() -> None:
    """Take back."""
    for table in TABLES:
        if op.get_bind().dialect.name == 'postgresql':
            op.execute(f'DROP TRIGGER {table}_append_only ON {table}')
            op.execute(f'DROP FUNCTION {table}_refuse()')
            continue
        for verb in ('update', 'delete'):
            op.execute(f'DROP TRIGGER {table}_no_{verb}')
    op.drop_table('log')
