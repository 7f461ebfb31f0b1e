# SPDX-License-Identifier: Apache-2.0
"""Blocks that run on other machines: what travels, what runs it there, and who gives it out (docs/fleet_files.md)."""
