"""Run pytest from a script, so that workers import this small file as their main module."""

import sys

if __name__ == "__main__":
    import pytest

    sys.exit(pytest.main())
