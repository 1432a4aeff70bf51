"""Reports on published claims: verdicts, capacity checks and the claims themselves."""
