# SPDX-License-Identifier: Apache-2.0
"""No procedure is shown that cannot reject: each one is given the clearest outcome its size allows for.

Every test that the analysis or a command prints is listed here with the least p it can give.
"""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from simulated import as_study, simulate

import heapyard.stats
from heapyard.model.experiment import Settings
from heapyard.report import anova_words
from heapyard.stats import change_points, diagnostics
from heapyard.stats.block_model import scatter_differs
from heapyard.stats.contrasts import SCATTER_LEVEL, Contrasts
from heapyard.stats.fixed_programs import FixedPrograms
from heapyard.stats.quantiles import tukey_quantile
from heapyard.stats.rank_tests import can_tell_pairs, least_signed_rank_p, rank_test
from heapyard.stats.rankings import ranking_of
from heapyard.stats.robust import hodges_lehmann
from heapyard.stats.sign_flip import sign_flip_p
from heapyard.stats.tables import Table

ALPHA = 0.05
CLEAR = 1e-4  # noise beside effects of 1


def clear(blocks: int, labels: int) -> np.ndarray:
    """A table whose treatments lie far apart."""
    return np.arange(labels) + np.random.default_rng(1).normal(0, CLEAR, (blocks, labels))


@pytest.mark.parametrize(("programs", "treatments"), list(itertools.product((2, 5, 8, 9, 10, 12, 16), (2, 3, 6, 11))))
def test_ranks_are_shown_exactly_where_they_can_tell_a_pair(programs: int, treatments: int) -> None:
    labels = tuple(f"t{i}" for i in range(treatments))
    tables = [Table(f"w{i}", "wall", labels, np.exp(clear(2, treatments))) for i in range(programs)]
    ranking = ranking_of("wall", tables, [t.workload for t in tables], labels, settings=Settings())
    letters = set(rank_test(np.tile(np.arange(treatments, dtype=float), (programs, 1))).letters)
    assert (ranking is not None) == can_tell_pairs(programs, treatments) == (len(letters) > 1)
    if ranking is not None:
        assert len({row.letters for row in ranking.rows}) > 1 and ranking.p < ALPHA
        assert ranking.critical_difference <= treatments - 1, "two mean ranks may lie as far apart"


def test_eight_programs_and_six_allocators_have_no_ranks() -> None:
    """The case that said three things at once: 2 of 2^8 patterns of signs against 5 % over 15 pairs."""
    assert not can_tell_pairs(8, 6) and can_tell_pairs(10, 6) and least_signed_rank_p(8) == 2 / 2**8


@pytest.mark.parametrize("count", range(1, 15))
def test_the_least_p_of_signs_is_that_of_one_sign(count: int) -> None:
    assert sign_flip_p(np.arange(1, count + 1)) == least_signed_rank_p(count)


@pytest.mark.parametrize("count", range(1, 12))
def test_signed_rank_intervals_end_exactly_where_they_can_reject(count: int) -> None:
    found = hodges_lehmann(np.arange(1, count + 1) / 10)
    assert np.isfinite(found.high) == (found.low > 1) == (least_signed_rank_p(count) <= ALPHA)


@pytest.mark.parametrize("blocks", [2, 3, 6])
@pytest.mark.parametrize("labels", [2, 3, 12])
def test_comparisons_of_two_blocks_can_reject(blocks: int, labels: int) -> None:
    """Dunnett, Tukey, Bonferroni and Holm, on one program and over several."""
    y = clear(blocks, labels)
    one = Contrasts(y, range(labels), confidence=0.95)
    several = FixedPrograms([one, one], [range(labels)] * 2, confidence=0.95)
    for method in (one, several):
        assert all(c.p_value < ALPHA for c in method.against(0, range(1, labels)))
        assert all(c.p_value < ALPHA for c in method.against(0, range(1, labels), family=40)), "the A/A control's family"
        assert method.differs().any()
    assert tukey_quantile(0.95, labels, (blocks - 1) * (labels - 1)) < np.inf


def test_unequal_scatter_can_be_found_in_three_blocks() -> None:
    residuals = np.array([[0, 0, 1.0], [0, 0, -1.0], [0, 0, 0]])
    assert scatter_differs(residuals, level=SCATTER_LEVEL)


@pytest.mark.parametrize("count", range(4, 15))
def test_changes_are_looked_for_exactly_where_they_can_be_found(count: int) -> None:
    levels = [0.0] * (count // 2) + [1.0] * (count - count // 2)
    found = change_points.change_points(levels)
    assert bool(found) == (change_points.least_p(count) <= change_points.LEVEL and count >= 10), found


def test_the_place_in_a_block_can_be_called() -> None:
    anova = as_study(simulate(3, 4, 4)[1])[0].anovas[0]
    least = 1 / (diagnostics.SHUFFLES + 1)
    assert least <= anova_words.UNLIKELY
    assert any("the place of a trial" in w for w in anova_words.warnings(replace(anova, place_p=least)))


def test_every_module_with_a_p_value_is_listed_here() -> None:
    """A new test must be added above: whoever computes a p is known."""
    known = {
        "anova", "anova_partial", "block_model", "change_points", "claim_growth", "claim_levels", "claim_ratios", "contrasts",
        "diagnostics", "equivalence", "factorial", "fixed_programs", "linear_model", "marginal_means", "quantiles", "rank_tests",
        "rankings", "residuals", "sign_flip", "tukey",
    }  # fmt: skip
    folder = Path(inspect.getfile(heapyard.stats)).parent
    found = {
        path.stem for path in folder.glob("*.py")
        if any(word in path.read_text() for word in ("fdtrc", "t_two_sided", "_sf(", "sign_flip_p(", "SHUFFLES", "rank_test("))
    }  # fmt: skip
    assert found <= known, found - known
