"""What the test suite adds to pytest."""
