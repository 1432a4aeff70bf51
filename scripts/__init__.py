"""Maintenance: installation of tools, generated pages, and checks of what the docs promise."""
