"""Which pairs that were given up come again."""

from types import SimpleNamespace

import sqlalchemy as sa
from alembic import command
from arena_setting import STATION

from arena_robot.server.base import PolicyState
from arena_robot.server.store import redraws
from arena_robot.server.store.database import alembic_config
from arena_robot.server.store.policies import NewPolicy
from arena_robot.server.store.schema import sessions as table
from arena_robot.server.store.sealed_pairs import pair_of, pair_text
from arena_robot.session.arena.contract import PROMPT


def test_pairs_of_retired_policies_do_not_crowd_out_others(setting):
    arena, database = setting.arena(), setting.server.database
    first = arena.assign(STATION, 'ada', PROMPT).session_id
    arena.abort(first, 'not this one')
    gone = setting.server.policies.add(NewPolicy('gone', 'grpc://127.0.0.1:9'),
                                       setting.owner.id, PolicyState.RETIRED).id
    with database.write() as connection:
        row = dict(connection.execute(sa.select(table).where(
            table.c.id == first)).mappings().one())
        pair = pair_of(SimpleNamespace(**row))
        for k in range(100):
            connection.execute(sa.insert(table).values(row | {
                'id': f'old-{k}', 'request': f'old-{k}', 'token_a': f'a{k}', 'token_b': f'b{k}',
                'created_ns': k, 'sealed_pair': pair_text((gone, pair[1]))}))
    with database.write() as connection:
        assert [one[0] for one in redraws.pairs_to_repeat(connection, row['evaluator_id'])] \
            == [first]


def test_an_aborted_session_of_the_first_schema_comes_again(setting):
    """It was stored without saying whether it is valid."""
    arena, database = setting.arena(), setting.server.database
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    arena.abort(session_id, 'not this one')
    config = alembic_config()
    with database.write() as connection:
        config.attributes['connection'] = connection
        command.downgrade(config, '0017')
        connection.execute(sa.update(table).values(valid=None))
        command.upgrade(config, 'head')
    with database.write() as connection:
        evaluator = connection.execute(sa.select(table.c.evaluator_id)).scalar_one()
        assert [one[0] for one in redraws.pairs_to_repeat(connection, evaluator)] == [session_id]
        assert redraws.count_since(connection, evaluator, 0) == 1
