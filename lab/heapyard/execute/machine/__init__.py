# SPDX-License-Identifier: Apache-2.0
"""What on this machine threatens a result."""
