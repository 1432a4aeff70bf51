"""What the tests of the pool share: functions for workers, helpers, the state machine."""
