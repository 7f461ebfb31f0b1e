# SPDX-License-Identifier: Apache-2.0
"""Heapyard's lab: designed, randomised, interleaved experiments over heap allocators."""

__version__ = "0.1.0"
