"""The result of a gate: as text, and in the formats that programs of CI read."""
