"""The commands; the first line of each file names those that it defines with `@command`."""

# Their order is that of the list of commands.
from offload.cli.commands import start, serve, cases, benchmark, capacity, load_test  # isort: skip
from offload.cli.commands import advise, understand, live, gate, maintain  # isort: skip

__all__ = ["advise", "benchmark", "capacity", "cases", "gate", "live"]
__all__ += ["load_test", "maintain", "serve", "start", "understand"]
