"""A module that cannot be imported."""

first = 1
second = first + undefined  # noqa: F821
