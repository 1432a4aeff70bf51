"""The program `offload`, also as `python -m offload`."""

from __future__ import annotations

from offload import cli, interrupts


def main() -> None:
    """Run the command line."""
    interrupts.end_on_interrupt()
    cli.main()


if __name__ == "__main__":
    main()
