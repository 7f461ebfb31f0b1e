# SPDX-License-Identifier: Apache-2.0
"""Servers under load for hours: their keeper, their memory over time, turns on a small machine, and a record of it all."""
