# SPDX-License-Identifier: Apache-2.0
"""Profiles: memory of every call chain over time, from the traces that the native collector writes."""
