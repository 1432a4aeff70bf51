"""Analysis: rates, comparisons, ceilings and GIL costs, computed from the records of a run."""
