"""Tests of users' own applications; `apps` has small real ones."""

from pathlib import Path

APPS = Path(__file__).parent / "apps"
