# SPDX-License-Identifier: Apache-2.0
"""Showing an analysis: in the terminal and as one self-contained HTML page."""
