"""What a user of locust does; this file is given to locust, in a process of its own."""

from __future__ import annotations

import json
import os
from urllib.parse import urlsplit

from locust import FastHttpUser, task

ASKED = json.loads(os.environ["LOCUST_ASKED"])
PARTS = urlsplit(ASKED["url"])


class User(FastHttpUser):
    """Ask the one request again and again, on a connection that is kept."""

    host = f"{PARTS.scheme}://{PARTS.netloc}"
    connection_timeout = network_timeout = ASKED["timeout"]

    def on_start(self) -> None:
        """Begin the count with the first user, and not with its first answer."""
        self.environment.stats.get("asked", ASKED["method"])

    @task
    def ask(self) -> None:
        """Ask once; what is not answered well locust counts itself."""
        self.client.request(
            ASKED["method"],
            f"{PARTS.path or '/'}?{PARTS.query}".rstrip("?"),
            name="asked",
            data=ASKED["body"],
            headers=ASKED["headers"],
            allow_redirects=False,
        )
