"""The user class that locust runs, in its own process."""

from __future__ import annotations

import json
from pathlib import Path

from locust import FastHttpUser, task

REQUEST = json.loads(Path(__file__).with_name("request.json").read_text())


class User(FastHttpUser):
    """Send one request repeatedly on a keep-alive connection."""

    host = REQUEST["host"]
    connection_timeout = network_timeout = REQUEST["timeout"]

    def on_start(self) -> None:
        """Start counting with the first user, not with its first response."""
        self.environment.stats.get("request", REQUEST["method"])

    @task
    def send(self) -> None:
        """Send the request once; locust itself counts failures."""
        self.client.request(
            REQUEST["method"],
            REQUEST["target"],
            name="request",
            data=REQUEST["body"],
            headers=REQUEST["headers"],
            allow_redirects=False,
        )
