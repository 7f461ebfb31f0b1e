# SPDX-License-Identifier: Apache-2.0
"""A program that serves: waiting until it is ready, its load without the library, stopping it, what it did meanwhile."""

from .life import Client, ended_as_asked, serve

__all__ = ["Client", "ended_as_asked", "serve"]
