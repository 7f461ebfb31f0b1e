# SPDX-License-Identifier: Apache-2.0
"""Figures of a report, each as Vega-Lite."""
