# SPDX-License-Identifier: Apache-2.0
"""Designs: blocks, random orders, and how many blocks a wanted precision takes."""
