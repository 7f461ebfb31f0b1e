# SPDX-License-Identifier: Apache-2.0
"""The answers of a gate as JUnit XML, which every pipeline can show."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from ..model.metrics import metric_named
from ..model.record import Record
from ..stats.gate import Gated
from .words import interval_text


def junit(gated: Sequence[Gated], record: Record, *, strict: bool) -> str:
    """One test case per workload, metric and treatment: a regression fails, what was not shown is skipped.

    With `strict` what was not shown fails too. O(comparisons).
    """
    failed = [g for g in gated if g.answer == "regression" or (strict and g.answer == "not shown")]
    skipped = [g for g in gated if g.answer == "not shown" and not strict]
    suite = ElementTree.Element(
        "testsuite",
        name=record.experiment.title,
        tests=str(len(gated)),
        failures=str(len(failed)),
        skipped=str(len(skipped)),
        errors="0",
        timestamp=record.created,
    )
    for one in gated:
        c = one.comparison
        case = ElementTree.SubElement(
            suite, "testcase", classname=c.workload, name=f"{c.treatment}, {metric_named(c.metric).title}"
        )
        if one in failed:
            ElementTree.SubElement(case, "failure", message=sentence_of(one, record.experiment.settings.baseline))
        elif one in skipped:
            ElementTree.SubElement(case, "skipped", message=sentence_of(one, record.experiment.settings.baseline))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def sentence_of(gated: Gated, baseline: str) -> str:
    """What was found, in one sentence."""
    c = gated.comparison
    told = {
        "regression": f"worse than {baseline} by more than {100 * gated.limit:g} %",
        "shown not worse": f"shown not to be worse than {baseline} by more than {100 * gated.limit:g} %",
        "not shown": f"neither shown to be worse than {baseline} by more than {100 * gated.limit:g} % nor shown not to be",
    }[gated.answer]
    more = f"; {c.blocks_to_decide} more blocks may tell" if gated.answer == "not shown" and c.blocks_to_decide else ""
    metric = metric_named(c.metric)
    return f"{c.treatment} on {c.workload}: {told} in {metric.title} (ratio {interval_text(c.interval)}){more}{_on_machines(gated)}"


def _on_machines(gated: Gated) -> str:
    """The ratio of each kind of machine, where it is shown to depend on it: the one judged is a mean over machines."""
    if gated.machines is None:
        return ""
    by_kind = sorted(zip(gated.machines.ratios, gated.machines.groups, strict=True))
    return f"; a mean over machines, on which it depends: {', '.join(f'{ratio:.3f} on {name}' for ratio, name in by_kind)}"
