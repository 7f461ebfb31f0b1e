# SPDX-License-Identifier: Apache-2.0
"""Curves over the levels of a factor: axes, units, numbers below them."""
