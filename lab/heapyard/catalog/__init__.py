# SPDX-License-Identifier: Apache-2.0
"""What exists on this machine to compare: allocators and real programs."""
