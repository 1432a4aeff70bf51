"""Serve one task with one server: python -P -m offload.servers NAME TASK PORT."""

import sys

from offload.serving.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
