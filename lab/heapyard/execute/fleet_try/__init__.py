# SPDX-License-Identifier: Apache-2.0
"""A throw-away Slurm on this machine: a controller and some nodes, in name spaces of their own, gone when their user goes."""
