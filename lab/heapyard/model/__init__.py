# SPDX-License-Identifier: Apache-2.0
"""Plain data shared by every other room of the lab; imports nothing else of the lab and does no I/O."""
