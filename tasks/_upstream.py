"""The upstream's addresses, from the environment."""

from __future__ import annotations

import os

from offload.registry import places

UPSTREAM_HTTP = os.environ.get("UPSTREAM_HTTP", "http://127.0.0.1:8081")
UPSTREAM_HTTPS = os.environ.get("UPSTREAM_HTTPS", "https://127.0.0.1:8444")
UPSTREAM_CA = os.environ.get("UPSTREAM_CA", str(places.cache() / "upstream" / "ca.pem"))
