"""Tests of the toolkit, one folder for each of its packages."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
