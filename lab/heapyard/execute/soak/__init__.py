# SPDX-License-Identifier: Apache-2.0
"""Whole test suites under a malloc library, beside the same under glibc."""
