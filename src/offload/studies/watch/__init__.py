"""watch: a running process and its children, observed from outside, once a second.

``readings.py`` has the readings, ``document.py`` their lines and the conclusion.
"""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass

from cyclopts import Parameter

from offload import options
from offload.errors import RunError
from offload.studies import Command, Runner


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Watch a running process and its children from outside, once a second.

    The process is neither stopped nor changed. Each line has the CPU in cores, the memory (PSS),
    threads, voluntary and involuntary context switches per second, and rho, the share of the time
    in which the GIL is held: the largest of all processes. The end names what limits the processes,
    and the lines that hold the GIL, block the event loop or wait. The exit code is 2 if the pid is
    not a running Python, 3 if its memory may not be read, and 5 if it ends while it is watched.

    Examples:
      offload watch 1234
      offload watch url=http://127.0.0.1:8000/ seconds=30
    """

    pid: options.WatchPid = None
    _: KW_ONLY
    url: options.WatchUrl = ""
    time: options.WatchSeconds = None
    without_gil: options.WatchWithoutGil = False
    open: options.Open = False
    format: options.WatchFormat = "text"


class Watch(Command[Options]):
    """Prints a line for each reading, until Ctrl-C or the end of the process."""

    group = "Understand"
    options = Options

    def run(self, options: Options, runner: Runner) -> None:
        from offload.engine import running_servers
        from offload.studies.watch import diagnosis, document, readings, response_time
        from offload.studies.watch.summary import Summary

        runner.page(options.open)  # raises before anything starts
        url = options.url
        if options.pid is not None:
            number = options.pid
        elif url:
            number = response_time.server_pid(url)
        else:
            number = int(str(running_servers.find_server()["pid"]))
        is_text = options.format == "text"
        summary = Summary()
        watching = readings.Watch(number, url or None, options.without_gil)
        runner.report(document.description(watching))
        if is_text:
            print(document.head(bool(url)), flush=True)
        title = f"pid {number} ({watching.name})"
        rows = runner.rows(title, document.names(bool(url)), options.open)
        try:
            with watching:
                watching.sampled.start()
                for reading in watching.readings(options.time):
                    summary.add(reading)
                    rows.send(document.cells(reading, bool(url)))
                    line = (
                        document.line(reading, bool(url))
                        if is_text
                        else document.json_line(reading)
                    )
                    sys.stdout.write(f"{line}\n")  # one write: Ctrl-C never leaves half a line
                    sys.stdout.flush()
                    if not runner.has_reader:
                        break
        except KeyboardInterrupt:  # the usual end
            if not summary.readings:
                raise
        if summary.readings:
            signs = diagnosis.read_signs(watching, summary)
            end = document.text if is_text else document.json_summary
            print(end(summary, watching.own_cpu, signs))
            count = f"{summary.readings} readings in {summary.seconds:.0f} s."
            rows.close((count, *document.conclusion(summary, signs)))
        else:
            rows.close(())
        if watching.has_ended:
            what = f"pid {number} ended after {summary.seconds:.0f} s"
            raise RunError(what, "start it again, and watch its new pid")


COMMANDS = {"watch": Watch()}
