"""Reports: readers of records. They measure nothing and write nothing but text."""
