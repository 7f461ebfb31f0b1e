# SPDX-License-Identifier: Apache-2.0
"""The machine as a factor: speeds, interactions with allocators, kinds of machine."""
