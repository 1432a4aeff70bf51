"""The commands; the first line of each file names those that it defines with `@command`."""

# Their order is that of the list of commands.
from offload.cli.commands import start, serve, studies, runs, load_test, maintain  # isort: skip

__all__ = ["load_test", "maintain", "runs", "serve", "start", "studies"]
