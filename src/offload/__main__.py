"""The program `offload`, also as `python -m offload`."""

from __future__ import annotations

from offload import interrupts


def main() -> None:
    """Run the command line."""
    interrupts.end_on_interrupt()
    from offload.cli import program  # slow: it imports all commands

    program.main()


if __name__ == "__main__":
    main()
