"""Put our pool in the place of the peer's, in every interpreter that a test of the peer starts."""

import importlib
import os

if "PEER" in os.environ:
    importlib.import_module("peer_" + os.environ["PEER"]).install()
