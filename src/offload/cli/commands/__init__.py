"""The commands; the first line of each file names those that it defines with `@command`."""

# Their order is that of the list of commands.
from offload.cli.commands import start, serve, studies, resume, load_test  # isort: skip
from offload.cli.commands import report, live, maintain  # isort: skip

__all__ = ["live", "load_test", "maintain", "report", "resume"]
__all__ += ["serve", "start", "studies"]
