"""The user class that locust runs, in its own process."""

from __future__ import annotations

import json
import os
from urllib.parse import urlsplit

from locust import FastHttpUser, task

REQUEST = json.loads(os.environ["LOCUST_REQUEST"])
PARTS = urlsplit(REQUEST["url"])


class User(FastHttpUser):
    """Send one request repeatedly on a keep-alive connection."""

    host = f"{PARTS.scheme}://{PARTS.netloc}"
    connection_timeout = network_timeout = REQUEST["timeout"]

    def on_start(self) -> None:
        """Start counting with the first user, not with its first response."""
        self.environment.stats.get("request", REQUEST["method"])

    @task
    def send(self) -> None:
        """Send the request once; locust itself counts failures."""
        self.client.request(
            REQUEST["method"],
            (PARTS.path or "/") + (f"?{PARTS.query}" if PARTS.query else ""),
            name="request",
            data=REQUEST["body"],
            headers=REQUEST["headers"],
            allow_redirects=False,
        )
