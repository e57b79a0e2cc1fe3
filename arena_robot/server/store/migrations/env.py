"""Alembic runs this: it migrates over the connection it is handed, and nothing else."""

from alembic import context

from arena_robot.server.store.schema import metadata

context.configure(connection=context.config.attributes['connection'], target_metadata=metadata,
                  render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
