# SPDX-License-Identifier: Apache-2.0
"""The search over settings of allocators: what is tried next, and what was found."""
