# SPDX-License-Identifier: Apache-2.0
"""Allocators that are not ours: where they come from, how they are built and checked."""
