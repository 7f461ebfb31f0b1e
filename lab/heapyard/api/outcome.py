# SPDX-License-Identifier: Apache-2.0
"""One experiment and its analysis, for code that goes on with them: sentences, ratios, trials, the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.analysis import Analysis, Comparison
from ..model.preference import BY_TIME, Preference
from ..model.record import Record

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Outcome:
    """A stored experiment, as `compare`, `run`, `resume` and `load` give it. In a notebook it shows its tables."""

    record: Record
    preference: Preference = field(default=BY_TIME)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def status(self) -> str:
        """`finished`, `interrupted`, `failed`, or `running` in another process."""
        return self.record.status

    @cached_property
    def analysis(self) -> Analysis:
        """Intervals, comparisons and verdicts; model/analysis.py says what each field is. HeapyardError without a block."""
        from ..stats.analyse import analyse

        return analyse(self.record.observations)

    @property
    def headline(self) -> str:
        """Who is better, by how much, at which price: one or two sentences."""
        from ..report.verdict import headline

        return headline(self.analysis, self.preference)

    @property
    def chosen(self) -> str | None:
        """The treatment that the preference names; None where nothing is shown to be better than the baseline."""
        from ..report.choice import choose

        return choose(self.analysis, self.preference)

    def comparisons(self) -> list[Comparison]:
        """Every treatment against the baseline: by program and metric, then over all programs (`workload` is empty)."""
        within = [comparison for cell in self.analysis.cells for comparison in cell.comparisons]
        return within + [comparison for overall in self.analysis.overall for comparison in overall.comparisons]

    def ratios(self) -> DataFrame:
        """The same as a data frame: workload, metric, treatment, blocks, ratio, low, high, p_value, verdict."""
        return _frame(
            {
                "workload": c.workload,
                "metric": c.metric,
                "treatment": c.treatment,
                "blocks": c.blocks,
                "ratio": c.interval.ratio,
                "low": c.interval.low,
                "high": c.interval.high,
                "p_value": c.p_value,
                "verdict": c.verdict,
            }
            for c in self.comparisons()
        )

    def rows(self) -> Iterator[dict[str, object]]:
        """One row per trial and metric; docs/guide.md lists the columns."""
        from ..store.exports.long_form import long_rows

        return long_rows(self.record)

    def trials(self) -> DataFrame:
        """The same as a data frame."""
        return _frame(self.rows())

    def answer(self) -> dict[str, Any]:
        """What `heapyard show --json` prints; docs/report.md describes it."""
        from ..report.json_answer import answer

        return answer(self.analysis, self.record, self.preference)

    def report(self, path: str | Path) -> Path:
        """Write the page to `path`, one file that needs nothing but itself; where it is."""
        from ..report.html import write_report
        from ..store import read_series

        write_report(Path(path), self.analysis, self.record, preference=self.preference,
                     series=lambda name: read_series(self.record.path, name))
        return Path(path)

    def __repr__(self) -> str:
        said = self.headline if self.record.observations.rows else "no block was completed"
        return f"<experiment {self.id}, {self.status}: {said}>"

    def _repr_markdown_(self) -> str:
        from ..report.markdown import markdown

        return markdown(self.analysis, self.record, self.preference)


def _frame(rows: Iterator[dict[str, object]]) -> DataFrame:
    try:
        from pandas import DataFrame
    except ImportError:
        raise ImportError("data frames need pandas: pip install pandas; rows() and comparisons() need nothing") from None
    return DataFrame(rows)
