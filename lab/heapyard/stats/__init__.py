# SPDX-License-Identifier: Apache-2.0
"""From observations to an analysis; numpy and scipy are imported inside, never by the command line's help."""
