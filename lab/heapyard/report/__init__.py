"""Showing an analysis: in the terminal and as one self-contained HTML page."""
