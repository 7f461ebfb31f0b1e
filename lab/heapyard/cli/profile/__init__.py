# SPDX-License-Identifier: Apache-2.0
"""The verb `profile` and its parts."""
