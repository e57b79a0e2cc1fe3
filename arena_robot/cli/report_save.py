"""`arena report --save`: reports on one or all policies of a server, kept for its site."""

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.reports.policy_report.material import ReportMaterial
    from arena_robot.server.config import ServerConfig
    from arena_robot.server.store.database import Database


def server_config(args: argparse.Namespace) -> 'ServerConfig':
    """Return the configuration that --config or --data names."""
    from arena_robot.core.config import load
    from arena_robot.server.config import ServerConfig
    return load(ServerConfig, args.config) if args.config else ServerConfig(data=args.data)


def server_database(config: 'ServerConfig') -> 'Database':
    """Return the database of a server; its sealed texts can be read where the key is there."""
    from arena_robot.server.sealing import seal_of
    from arena_robot.server.store.database import Database
    key = config.key_path()
    return Database(config.database_url(), seal_of(key) if key.exists() else None)


def material_of_server(config: 'ServerConfig', database: 'Database') -> 'ReportMaterial':
    """Return the sessions of a server with what their files tell."""
    from arena_robot.server.blobs import Blobs
    from arena_robot.web.site.report_material import server_material
    blobs = Blobs(config.blobs_url())
    blobs.open()
    return server_material(database, blobs)


def save_reports(args: argparse.Namespace) -> int:
    """Make and keep the report on a policy, or on all whose sessions changed; print them."""
    from arena_robot.cli.model_arguments import chat_client
    from arena_robot.core.clock import SystemClock
    from arena_robot.reports.policy_report.compose import report_of
    from arena_robot.reports.policy_report.narrator import ReportNarrator
    from arena_robot.reports.policy_report.statements import report_to_json
    from arena_robot.server.store.reports import Reports
    clock, config = SystemClock(), server_config(args)
    with server_database(config) as database:
        material, kept = material_of_server(config, database), Reports(database, clock)
        chat = chat_client(args) if args.model else None
        try:
            for policy in _wanted(args, material, kept.covered()):
                report = ReportNarrator(chat).report(policy, material, clock, args.since) \
                    if chat else report_of(policy, material, clock, args.since)
                made = kept.add(policy, report.sessions, report.method, json.dumps(
                    report_to_json(report), ensure_ascii=False, allow_nan=False))
                print(f'{policy}: report {made.number}. {report.counts.words()}')
        finally:
            if chat:
                chat.close()
    return 0


def _wanted(args: argparse.Namespace, material: 'ReportMaterial', covered: dict[str, int],
            ) -> list[str]:
    if not args.all:
        return [args.policy]
    return [name for name in material.policies()
            if len(material.of(name)) != covered.get(name)]
