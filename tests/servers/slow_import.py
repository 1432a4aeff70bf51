"""A module that takes long to import, and notes in the folder IMPORTS who imports it."""

import os
import time
from pathlib import Path


def _note(what):
    Path(os.environ["IMPORTS"], f"{what}-{os.getpid()}").touch()


_note("begins")
time.sleep(float(os.environ["IMPORT_SECONDS"]))
_note("ends")


def answers():
    return b"imported"
