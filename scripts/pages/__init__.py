"""Write the generated parts of README and docs/ from code and committed records."""
