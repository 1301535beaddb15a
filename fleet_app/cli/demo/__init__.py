"""`fleet demo`: the whole story on this machine, told live and proven from the journal."""

from fleet_app.cli.demo.stage import run

__all__ = ["run"]
