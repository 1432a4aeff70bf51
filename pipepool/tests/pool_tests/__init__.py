"""Shared by the tests of the pool: functions for workers, helpers, the state machine."""
