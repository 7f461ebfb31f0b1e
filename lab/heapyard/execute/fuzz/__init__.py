# SPDX-License-Identifier: Apache-2.0
"""Plays random calls of the malloc interface under a library, and shortens what finds a fault (lab/native/fuzz)."""
