# SPDX-License-Identifier: Apache-2.0
"""The answer as Markdown, for a pull request or a wiki page."""

from __future__ import annotations

from ..model.analysis import Analysis, Overall
from ..model.metrics import metric_named
from ..model.preference import BY_TIME, Preference
from ..model.record import Record
from ..model.units import format_value
from .claims import tally
from .control_words import control_in_words
from .curves.tables import curve_tables, heading
from .huge_page_words import huge_pages_of
from .machine_tables import KINDS_HEAD, kind_tables, kinds_in_words
from .machine_words import machine_sentences, pooled_in_vain
from .verdict import answered, headline
from .words import VERDICT_WORDS, direction_text, interval_text, sentence


def markdown(analysis: Analysis, record: Record, preference: Preference = BY_TIME) -> str:
    """Verdict, overall table, one table per primary metric, failures, control, and how to look behind the numbers."""
    answer = answered(analysis, preference)
    lines = [f"**{escaped(headline(analysis, preference))}**", ""]
    if pages := huge_pages_of(record):
        lines += [f"{escaped(sentence(pages))}.", ""]
    for part in (answer.another, answer.choices, answer.out):
        lines += [escaped(part), ""] if part else []
    overall = [o for o in (analysis.over_all(m) for m in analysis.primary) if o is not None and o.comparisons]
    if overall:
        lines += [
            f"Ratio to {escaped(analysis.baseline)} with 95 % interval over {analysis.counted(len(overall[0].workloads))}; "
            "lower is better. The interval is that of these alone.",
            "",
        ]
        rows = [
            [escaped(t), *(_over_machines(analysis, o, t) for o in overall)] for t in analysis.treatments
        ]
        lines += table_rows(["allocator", *(metric_named(o.metric).title for o in overall)], rows)
    lines += _machines(analysis, preference)
    figures = curve_tables(analysis)
    for name in () if figures else analysis.primary:
        metric, cells = metric_named(name), [c for c in analysis.cells if c.metric == name]
        if not cells:
            continue
        rows = []
        for cell in cells:
            base = next((s for s in cell.summaries if s.treatment == analysis.baseline), None)
            rows.append(
                [
                    escaped(cell.workload),
                    str(cell.blocks),
                    format_value(base.mean, metric.unit) if base else "",
                    *(
                        _entry(cell.comparisons, t, analysis.baseline)
                        for t in analysis.treatments
                        if t != analysis.baseline
                    ),
                ]
            )
        lines += [f"{sentence(metric.title)} by {analysis.workload_noun}; {direction_text(metric)}.", ""]
        others = [escaped(t) for t in analysis.treatments if t != analysis.baseline]
        lines += table_rows([analysis.workload_noun, "blocks", escaped(analysis.baseline), *others], rows)
    for table in figures:
        lines += [f"{escaped(heading(table))}. {escaped(table.note)}".rstrip(), ""]
        rows = [[escaped(t), *(f"{mean} ({ends})" if mean else "" for mean, ends in cells)] for t, cells in table.rows]
        lines += table_rows([escaped(table.over), *(escaped(level) for level in table.levels)], rows)
    if analysis.judgements:
        lines += [f"What others found, tested here: {tally(analysis.judgements)}.", ""]
        rows = [[j.verdict, escaped(j.claim.text), escaped(j.claim.source), escaped(j.evidence)] for j in analysis.judgements]
        lines += table_rows(["here", "claim", "source", "evidence"], rows)
    if analysis.failures:
        lines += ["Failures:", ""]
        lines += [
            f"- {escaped(f.treatment)} on {escaped(f.workload)}: {f.failed} of {f.attempted}, {f.kind}: {escaped(f.reason)}"
            for f in analysis.failures
        ] + [""]
    lines += [escaped(control_in_words(analysis)), ""]
    lines += [f"- {escaped(note)}" for note in analysis.notes]
    return "\n".join(
        [
            *lines,
            "",
            f"Experiment `{record.id}`, heapyard {record.version}, seed {record.experiment.settings.seed}.",
            "",
        ]
    )


def _over_machines(analysis: Analysis, overall: Overall, treatment: str) -> str:
    """The mean, where one stands for all machines."""
    if pooled_in_vain(analysis, overall.metric, treatment):
        return "depends on the machine"
    return _entry(overall.comparisons, treatment, analysis.baseline)


def _machines(analysis: Analysis, preference: Preference) -> list[str]:
    """What there is to say of a fleet's machines: sentences, their kinds, ratios by kind."""
    if analysis.machines is None:
        return []
    lines = [escaped(" ".join(machine_sentences(analysis, preference, kinds=False))), ""]
    lines += table_rows(list(KINDS_HEAD), [[escaped(text) for text in row] for row in kinds_in_words(analysis)])
    for table in kind_tables(analysis):
        lines += [f"{escaped(table.title)}. {escaped(table.note)}".rstrip(), ""]
        rows = [
            [escaped(t),
             *(f"{interval_text(c.interval)} {VERDICT_WORDS[c.verdict]}" if c else "not measured" for c in found), answer]
            for t, found, answer in table.rows
        ]
        lines += table_rows(["allocator", *map(escaped, table.kinds), "on the machine"], rows)
    return lines


def _entry(comparisons: tuple, treatment: str, baseline: str) -> str:
    found = next((c for c in comparisons if c.treatment == treatment), None)
    if found is None:
        return "1" if treatment == baseline else "not measured"
    return f"{interval_text(found.interval)} {VERDICT_WORDS[found.verdict]}"


def table_rows(head: list[str], rows: list[list[str]]) -> list[str]:
    made = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return made + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def escaped(text: str) -> str:
    """Text that cannot end a table cell or start markup."""
    return "".join("\\" + c if c in "|*_`<>[]\\" else c for c in text.replace("\n", " "))
