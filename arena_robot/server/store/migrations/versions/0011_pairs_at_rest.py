"""
Pairs at rest: the pair of a session that is not public is in one sealed column.

The columns that name policies become optional. Pairs that are there are sealed when the server
starts, because only the server has the key.
"""

import re

import sqlalchemy as sa
from alembic import op

revision = '0011'
down_revision = '0010'

NAMING = (('sessions', 'policy_a_id'), ('sessions', 'policy_b_id'), ('episodes', 'policy_id'),
          ('relayed', 'policy_id'))


def upgrade() -> None:
    """Apply."""
    op.add_column('sessions', sa.Column('sealed_pair', sa.Text(), nullable=False,
                                        server_default=''))
    if op.get_bind().dialect.name == 'sqlite':
        _rewrite(r'(policy_(?:a_|b_)?id INTEGER) NOT NULL', r'\1')
        return
    for table, column in NAMING:
        op.alter_column(table, column, existing_type=sa.Integer(), nullable=True)


def downgrade() -> None:
    """Take back; sessions whose pair is sealed need the key: open them first, or delete them."""
    if op.get_bind().dialect.name == 'sqlite':
        _rewrite(r'(policy_(?:a_|b_)?id INTEGER)(?! NOT NULL)', r'\1 NOT NULL')
    else:
        for table, column in NAMING:
            op.alter_column(table, column, existing_type=sa.Integer(), nullable=False)
    op.drop_column('sessions', 'sealed_pair')


def _rewrite(pattern: str, by: str) -> None:
    """
    Change NOT NULL of columns in SQLite's own description of the tables.

    It does not change how rows are stored; https://sqlite.org/lang_altertable.html describes it.
    Making the tables anew would not be possible while others refer to them.
    """
    connection = op.get_bind()
    version = connection.exec_driver_sql('PRAGMA schema_version').scalar_one()
    connection.exec_driver_sql('PRAGMA writable_schema=ON')
    for table in sorted({table for table, _ in NAMING}):
        (text,) = connection.exec_driver_sql(
            "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)).one()
        connection.exec_driver_sql(
            "UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?",
            (re.sub(pattern, by, text), table))
    connection.exec_driver_sql(f'PRAGMA schema_version={version + 1}')
    connection.exec_driver_sql('PRAGMA writable_schema=OFF')
