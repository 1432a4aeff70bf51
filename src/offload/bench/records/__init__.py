"""Records: what trials measured, appended to a run's folder and read again."""
