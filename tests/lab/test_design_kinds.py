# SPDX-License-Identifier: Apache-2.0
"""Fractions, nested factors and studies that are no full crossing: what is run, what is said, how it is analysed."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from heapyard.catalog.fraction import fraction_of, read_share
from heapyard.catalog.mutators import workloads
from heapyard.catalog.study import read_study
from heapyard.model.errors import UsageError
from heapyard.model.experiment import Settings
from heapyard.model.observations import Observation, Observations
from heapyard.stats.anova import anovas_of

HEAD = """[study]
title = "a study"
mutator = "threadtest"
allocators = ["glibc"]
baseline = "glibc"
time = "wall_time"
memory = "rss_peak"
"""


def study(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(HEAD + text)
    return path


@pytest.mark.parametrize(("factors", "share"), [(3, 2), (4, 2), (5, 2), (5, 4), (6, 8), (7, 8)])
def test_a_fraction_is_balanced_and_leaves_main_effects_apart(factors: int, share: int) -> None:
    levels = {f"f{i}": ("a", "b") for i in range(factors)}
    found = fraction_of(share, levels)
    rows = np.array(sorted(found.rows)) * 2 - 1
    assert rows.shape == (2**factors // share, factors)
    assert (rows.sum(axis=0) == 0).all()  # each level as often
    assert (rows.T @ rows == len(rows) * np.eye(factors)).all()  # main effects do not mix


def test_what_is_confounded_is_said_in_the_factors_names() -> None:
    found = fraction_of(2, {"threads": (1, 2), "size": (16, 64), "seed": (1, 2, 3), "objects": (10, 20)})
    assert found.factors == ("threads", "size", "objects")
    assert "threads cannot be told from size x objects" in found.confounded
    # A half of five keeps all main effects and pairs apart: resolution V.
    assert fraction_of(2, {f"f{i}": (0, 1) for i in range(5)}).confounded == ()


def test_a_fraction_that_would_mix_main_effects_is_refused() -> None:
    with pytest.raises(UsageError, match="no fraction of 1/16 of 7 factors that keeps main effects apart"):
        fraction_of(16, {f"f{i}": (0, 1) for i in range(7)})


def test_only_the_fraction_is_run_and_other_factors_stay_crossed(tmp_path: Path) -> None:
    factors = "threads = [1, 2]\nsize = [16, 64]\nobjects = [10, 20]\niterations = [1, 2, 3]"
    text = f'[factors]\n{factors}\n[design]\nfraction = "1/2"\n'
    read = read_study(study(tmp_path, text))
    made = workloads(read.mutator, read.options, read.levels, (), read.constraints, read.fraction)
    assert len(made) == 4 * 3
    assert len({p.levels["iterations"] for p in made}) == 3


def test_nested_factors_are_variants_of_one_allocator(tmp_path: Path) -> None:
    text = '[factors]\nthreads = [1, 2]\n[nested.jemalloc]\nnarenas = [1, 4]\ntcache = [true, false]\n'
    assert read_study(study(tmp_path, text)).allocators == (
        "glibc", "jemalloc:narenas=1,tcache=true", "jemalloc:narenas=1,tcache=false", "jemalloc:narenas=4,tcache=true",
        "jemalloc:narenas=4,tcache=false",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[factors]\nthreads = []\n", "study.toml:9: field 'factors.threads' has no levels"),
        ('[factors]\nthreads = [1, ""]\n', "study.toml:9: field 'factors.threads' has an empty level"),
        ("blocks = 1\n[factors]\nthreads = [1, 2]\n", "study.toml:8: field 'study.blocks' is 1: a study without replication"),
        ('[factors]\nthreads = [1, 2]\nsize = [1, 2]\n[design]\nfraction = "1/2"\n', "leaves 2 runs for 3 parameters"),
        ('[factors]\nthreads = [1, 2]\n[design]\nfraction = "1/3"\n', "'1/3' is not a fraction such as 1/2"),
        (
            "[factors]\nthreads = [1, 2]\nsize = [1, 2]\nobjects = [1, 2]\n"
            '[design]\nfraction = "1/2"\nconstraints = ["threads < 2"]\n',
            "do not go together",
        ),
        ("[nested.jemalloc]\n", "has no factors"),
        ("[nested.jemalloc]\nnarenas = []\n", "'nested.jemalloc.narenas' has no levels"),
    ],
)
def test_a_design_that_cannot_be_gets_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        read_study(study(tmp_path, text))
    assert sentence in error.value.message and "\n" not in error.value.message


def test_an_unknown_factor_gets_one_sentence(tmp_path: Path) -> None:
    read = read_study(study(tmp_path, "[factors]\nnosuch = [1, 2]\n"))
    with pytest.raises(UsageError, match="has no option --nosuch"):
        workloads(read.mutator, read.options, read.levels)


def test_shares_are_powers_of_two() -> None:
    assert [read_share(f"1/{n}") for n in (2, 4, 16)] == [2, 4, 16]
    for text in ("2", "1/1", "1/6", "0.5", "half"):
        with pytest.raises(UsageError):
            read_share(text)


def observations(cells: list[tuple[str, str]], rounds: int, seed: int) -> tuple[Observations, pd.DataFrame]:
    """Responses with effects of everything, over an incomplete crossing of two factors."""
    draw = np.random.default_rng(seed)
    names = [f"size={s} threads={t}" for s, t in cells]
    rows, table = [], []
    places = list(zip(names, cells, strict=True))
    for r, (name, (size, threads)), treatment in itertools.product(range(rounds), places, ("base", "a", "b")):
        effect = 0.4 * "abc".index(size) + 0.2 * int(threads) + 0.3 * (treatment == "b") * int(threads)
        log = 0.1 * r + effect + draw.normal(0, 0.05)
        rows.append(Observation(name, treatment, r, "wall", float(np.exp(log)), trial=len(rows) + 1, round=r))
        table.append({"y": log, "allocator": treatment, "size": size, "threads": threads, "blocks": str(r)})
    levels = {name: {"size": s, "threads": t} for name, (s, t) in zip(names, cells, strict=True)}
    seen = Observations(tuple(names), ("base", "a", "b"), "base", "", tuple(rows), settings=Settings(), levels=levels)
    return seen, pd.DataFrame(table)


def test_an_incomplete_crossing_has_a_type_ii_table_as_statsmodels_computes_it() -> None:
    seen, table = observations([("a", "1"), ("a", "2"), ("b", "1"), ("c", "2"), ("c", "1")], 4, 7)
    (found,) = anovas_of(seen)
    model = smf.ols("y ~ C(allocator, Sum) * C(size, Sum) + C(allocator, Sum) * C(threads, Sum) + C(blocks, Sum)", table).fit()
    oracle = sm.stats.anova_lm(model, typ=2)
    of = {"allocator": "C(allocator, Sum)", "size": "C(size, Sum)", "threads": "C(threads, Sum)", "blocks": "C(blocks, Sum)",
          "allocator x size": "C(allocator, Sum):C(size, Sum)", "allocator x threads": "C(allocator, Sum):C(threads, Sum)"}
    assert {r.source for r in found.rows} == set(of)
    for row in found.rows:
        assert row.df == oracle.loc[of[row.source], "df"]
        assert row.sum_of_squares == pytest.approx(oracle.loc[of[row.source], "sum_sq"], rel=1e-8)
        assert row.p == pytest.approx(oracle.loc[of[row.source], "PR(>F)"], rel=1e-6, abs=1e-300)
    assert found.error_df == model.df_resid
    assert [m.treatment for m in found.means][-1] == "b" and found.means[-1].letters != found.means[0].letters


def test_a_complete_crossing_keeps_its_full_table() -> None:
    seen, _ = observations([(s, t) for s in "ab" for t in "12"], 3, 1)
    (found,) = anovas_of(seen)
    assert "size x threads" in {r.source for r in found.rows}


def test_more_parameters_than_trials_have_no_table() -> None:
    seen, _ = observations([("a", "1"), ("b", "2"), ("c", "1"), ("a", "2")], 1, 1)
    assert anovas_of(seen) == ()
