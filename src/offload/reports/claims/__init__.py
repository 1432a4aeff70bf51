"""Published claims: their verdicts, and how they are worded."""
