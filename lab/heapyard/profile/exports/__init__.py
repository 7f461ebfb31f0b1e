# SPDX-License-Identifier: Apache-2.0
"""Profiles in the formats of other tools; one module a format, each with `render(trace, naming, snapshot) -> bytes`."""
