# SPDX-License-Identifier: Apache-2.0
"""Carrying out trials: launch, proof of injection, guards, counters, and the experiment's loop."""
