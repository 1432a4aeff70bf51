"""The report of runs as one HTML file: the answer, pictures, every figure, and the records."""
