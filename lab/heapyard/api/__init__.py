# SPDX-License-Identifier: Apache-2.0
"""The lab as a library: what the verbs do, without a terminal. Its names are those of `heapyard` itself."""
