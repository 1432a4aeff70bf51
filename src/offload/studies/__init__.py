"""Questions, one folder each: all of a question stands in its folder."""
