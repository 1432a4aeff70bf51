"""A module with a slow import that notes in the folder IMPORTS which process imports it."""

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
