"""Pictures: specifications for Vega-Lite as plain data, and the SVG drawn from them."""
