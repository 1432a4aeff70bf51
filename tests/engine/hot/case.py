"""Sample one function or application on a real server; print who it found as JSON.

Run as a program, because a process without privileges cannot get them back.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from offload.engine import server, who
from offload.loads import Load
from offload.suites import Case

FOLDER = Path(__file__).parent


class Slow(BaseHTTPRequestHandler):
    """Answer after 20 ms."""

    def do_GET(self) -> None:
        time.sleep(0.02)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main(kind: str, name: str, strategy: str) -> None:
    file = "functions.py" if kind == "function" else "applications"
    task = f"{FOLDER / file}:{name}" if kind == "function" else f"app={file}:{name}"
    settings = {"workers": 4} if strategy == "threads" else {}
    case = Case(strategy, task, users=8, settings=settings, path=str(FOLDER))
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    running = server.start(case, {"HOT_URL": f"http://127.0.0.1:{upstream.server_port}/"})
    try:
        found, _ = who.sample_server(running.facts, Load(running.url, 8), FOLDER)
    finally:
        server.stop(running)
        upstream.shutdown()
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
