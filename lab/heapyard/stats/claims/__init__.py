# SPDX-License-Identifier: Apache-2.0
"""Claims of the literature, tested on an experiment."""
