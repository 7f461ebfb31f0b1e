# SPDX-License-Identifier: Apache-2.0
"""Trials on a simulated machine: QEMU's user mode runs the program, a plugin of it is the machine."""
