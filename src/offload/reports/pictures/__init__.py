"""Pictures: specifications for Vega-Lite as plain data, and the SVG that is drawn from them."""
