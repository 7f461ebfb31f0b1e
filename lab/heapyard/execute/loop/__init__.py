# SPDX-License-Identifier: Apache-2.0
"""Parts of the loop that carries out an experiment."""
