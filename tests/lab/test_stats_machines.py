# SPDX-License-Identifier: Apache-2.0
"""The machine as a factor: textbook and oracle values, error rates and power on simulated fleets, what is found and what is not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pingouin
import pytest
from fleets import HALF, NO_TCACHE, NODES, machines_in, on_fleet
from scipy import stats
from simulated import simulate
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.oneway import anova_oneway

from heapyard.model.observations import Observations
from heapyard.stats.machines.group_means import F, WELCH, all_alike, f_test, farthest, group_means
from heapyard.stats.machines.interaction import holm_adjusted
from heapyard.stats.machines.split_plot import split_plot

EQUAL = dict.fromkeys(("jemalloc", "mimalloc", "tcmalloc"), (1.0, 1.0))

# Textbooks and oracles -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The inplace keyword")
def test_a_published_split_plot_comes_out() -> None:
    """pingouin's set `mixed_anova`: subjects are blocks, their group is the machine, the month takes the allocator's place."""
    data = pingouin.read_dataset("mixed_anova")
    wide = data.pivot(index=["Subject", "Group"], columns="Time", values="Scores")
    groups = pd.factorize(wide.index.get_level_values("Group"))[0]
    found = split_plot(wide.to_numpy(), groups)
    table = pingouin.mixed_anova(data, dv="Scores", within="Time", subject="Subject", between="Group").set_index("Source")
    for source, name in ((found.machine, "Group"), (found.interaction, "Interaction")):
        assert source.sum_of_squares == pytest.approx(table.loc[name, "SS"], rel=1e-10)
        assert (source.df, source.f, source.p) == pytest.approx(
            (table.loc[name, "DF1"], table.loc[name, "F"], table.loc[name, "p_unc"]), rel=1e-8
        )
    assert (found.block_df, found.error_df) == (table.loc["Group", "DF2"], table.loc["Interaction", "DF2"])
    # As printed in pingouin's documentation of the set.
    assert (round(found.machine.f, 3), round(found.interaction.f, 3)) == (5.052, 2.728)


@pytest.mark.filterwarnings("ignore:The design matrix is rank-deficient")
def test_an_unequal_number_of_blocks_is_statsmodels_two_way_model() -> None:
    rng, groups = np.random.default_rng(4), np.repeat([0, 1, 2], (3, 5, 8))
    y = rng.normal(0, 0.02, (16, 4)) + rng.normal(0, 0.1, (16, 1)) + groups[:, None] * np.array([0, 0.01, 0, 0.03])
    long = pd.DataFrame(
        {"y": y.ravel(), "node": np.repeat(groups, 4), "block": np.repeat(np.arange(16), 4), "allocator": np.tile(range(4), 16)}
    )
    without = ols("y ~ C(block) + C(allocator)", long).fit()
    whole = ols("y ~ C(block) + C(allocator) + C(node):C(allocator)", long).fit()  # node itself lies in the blocks
    found = split_plot(y, groups)
    assert (found.error_df, found.mean_square) == pytest.approx((whole.df_resid, whole.mse_resid), rel=1e-8)
    assert found.interaction.df == without.df_resid - whole.df_resid == 6
    f = (without.ssr - whole.ssr) / 6 / whole.mse_resid
    assert (found.interaction.f, found.interaction.p) == pytest.approx((f, stats.f.sf(f, 6, whole.df_resid)), rel=1e-8)
    means = anova_lm(ols("y ~ C(node)", long.groupby(["block", "node"], as_index=False)["y"].mean()).fit())
    assert (found.machine.f, found.machine.p) == pytest.approx((means.loc["C(node)", "F"], means.loc["C(node)", "PR(>F)"]))


def test_one_workload_is_the_one_way_analysis_of_variance() -> None:
    rng, groups = np.random.default_rng(5), np.repeat([0, 1, 2], (4, 6, 5))
    y = rng.normal(0, 1, 15) + 0.8 * groups
    found = f_test(made := group_means([y], [groups], 3))
    expected = stats.f_oneway(*(y[groups == g] for g in range(3)))
    assert made.method == F and (found.f, found.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-10)


def test_unequal_scatter_is_welchs_test() -> None:
    rng, groups = np.random.default_rng(6), np.repeat([0, 1, 2], (6, 7, 9))
    y = rng.normal(0, np.array([0.1, 1, 5])[groups]) + groups
    found = f_test(made := group_means([y], [groups], 3))
    expected = anova_oneway([y[groups == g] for g in range(3)], use_var="unequal", welch_correction=True)
    assert made.method == WELCH
    # Degrees of freedom of the single machines are whole numbers here as there.
    assert (found.f, found.error_df, found.p) == pytest.approx((expected.statistic, expected.df_denom, expected.pvalue), rel=1e-8)


def test_holm_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    p = [0.04, 0.001, 0.6, 0.012, 0.04]
    assert holm_adjusted(p) == pytest.approx(multipletests(p, method="holm")[1])


# Error rates and power -------------------------------------------------------------------------------------------------


def rejected(
    rng: np.random.Generator, *, machines: int, blocks: int, workloads: int = 1, runs: int, scale: tuple[float, ...] = (1.0,),
    shift: float = 0.0,
) -> float:  # fmt: skip
    """Share of tests at 5 %; the last machine's noise is `scale` times as large by turns, its mean `shift` sds away."""
    groups = np.tile(np.arange(machines), blocks)
    noise = np.array([*[1.0] * (machines - 1), scale[-1]])[groups]
    moved = shift * (groups == machines - 1)
    tests = (
        f_test(group_means(list(rng.normal(0, 1, (workloads, len(groups))) * noise + moved), [groups] * workloads, machines))
        for _ in range(runs)
    )
    return float(np.mean([t.p < 0.05 for t in tests]))


@pytest.mark.parametrize(("machines", "blocks", "workloads"), [(3, 4, 1), (2, 2, 4), (4, 6, 3)])
def test_equal_machines_are_called_different_in_five_percent(machines: int, blocks: int, workloads: int) -> None:
    rng, runs = np.random.default_rng(11), 500
    share = rejected(rng, machines=machines, blocks=blocks, workloads=workloads, runs=runs)
    assert 0.02 <= share <= 0.07 + 2 * math.sqrt(0.05 * 0.95 / runs)


def test_a_machine_that_is_noisier_is_not_called_different() -> None:
    rng, runs = np.random.default_rng(12), 500
    assert rejected(rng, machines=3, blocks=6, scale=(5.0,), runs=runs) <= 0.07 + 2 * math.sqrt(0.05 * 0.95 / runs)


def test_a_machine_that_is_off_is_found() -> None:
    assert rejected(np.random.default_rng(13), machines=3, blocks=8, workloads=4, runs=100, shift=1.5) >= 0.95


@pytest.mark.on_request
@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
@pytest.mark.parametrize(("machines", "blocks", "workloads"), [(2, 3, 1), (3, 2, 8), (3, 4, 1), (3, 4, 8), (3, 10, 1), (8, 4, 4)])
def test_size_and_power_in_many_fleets(machines: int, blocks: int, workloads: int, scale: float, capsys) -> None:
    """Prints the rows of the table in docs/measured/method.md."""
    rng, runs = np.random.default_rng(14), 4000
    shares = [
        rejected(rng, machines=machines, blocks=blocks, workloads=workloads, runs=runs, scale=(scale,), shift=shift)
        for shift in (0.0, 1.0, 2.0)
    ]
    with capsys.disabled():
        told = " | ".join(f"{100 * share:.1f} %" for share in shares)
        print(f"\n| {machines} | {blocks} | {workloads} | {scale:g} | {told} |", end="")
    assert shares[0] <= 0.08 and shares[0] < shares[2]


def test_intervals_of_the_farthest_pair_hold_the_truth() -> None:
    """The pair is chosen by the data; that its interval holds for all pairs makes the choice harmless."""
    rng, groups, held, runs = np.random.default_rng(15), np.tile(np.arange(3), 5), 0, 400
    truth = np.array([0.0, 0.3, 0.9])
    for _ in range(runs):
        apart = farthest(group_means([rng.normal(0, 1, 15) + truth[groups]], [groups], 3), confidence=0.95)
        held += apart.low_end <= truth[apart.high] - truth[apart.low] <= apart.high_end
    assert held / runs >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)


def test_machines_that_differ_by_the_margin_are_alike_in_five_percent() -> None:
    rng, groups, runs = np.random.default_rng(16), np.tile(np.arange(2), 6), 500
    called = [
        all_alike(group_means([rng.normal(0, 0.01, 12) + 0.02 * groups], [groups], 2), margin=0.02, confidence=0.95)
        for _ in range(runs)
    ]
    assert np.mean(called) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


# Whole fleets ----------------------------------------------------------------------------------------------------------


def observed(seed: int = 5, blocks: int = 12, programs: int = 3, ratios: dict | None = None, **of_machines: object) -> Observations:
    return on_fleet(simulate(3, programs, blocks, noise=0.012, seed=seed, ratios=ratios)[1], **of_machines).observations


def test_a_machine_that_is_only_slower_is_no_interaction() -> None:
    found = machines_in(observed(speeds={"node2": 1.7}))
    assert [k.nodes for k in found.kinds] == [NODES] and not found.depends("wall")
    assert {i.answer for i in found.interactions if not i.workload} == {"alike"}
    speed = {s.node: s.interval for s in found.speeds if s.metric == "wall"}
    of_time = [v for v in found.variances if v.metric == "wall"]
    mean = 1.7 ** (1 / 3)
    assert speed["node2"].low <= 1.7 / mean <= speed["node2"].high and speed["node1"].low <= 1 / mean <= speed["node1"].high
    assert speed["node2"].low > 1.3 and all(v.node_p < 0.001 < v.interaction_p for v in of_time)


def test_a_machine_with_other_ratios_is_found_by_its_facts() -> None:
    found = machines_in(observed(effects={("node2", "mimalloc"): 1.1}, snapshots={"node2": NO_TCACHE}))
    usual, odd = found.kinds
    assert usual.nodes == ("node1", "node3") and odd.nodes == ("node2",) and odd.differs == ("glibc tcache off",)
    assert found.depends("wall") == ("mimalloc",) and found.depends("peak_rss") == ()
    interaction = found.interaction("wall", "mimalloc")
    assert interaction.largest.low <= 1.1 <= interaction.largest.high and interaction.high == "node2"
    assert not odd.split


def test_a_machine_with_other_ratios_is_found_without_facts() -> None:
    found = machines_in(observed(effects={("node2", "mimalloc"): 1.1}))
    assert [(k.nodes, k.split) for k in found.kinds] == [(("node1", "node3"), False), (("node2",), True)]
    assert found.depends("wall") == ("mimalloc",)


def test_a_baseline_that_is_slower_on_one_machine_moves_every_ratio() -> None:
    """As with glibc's cache switched off; one that is slower as a whole, by a quota, moves none but is told by its fact."""
    slow = {("node2", label): 1.2 for label in ("glibc", "glibc (A/A control)")}
    facts = {"node2": NO_TCACHE, "node3": HALF}
    found = machines_in(observed(effects=slow, speeds={"node3": 2.0}, noisy={"node3": 0.03}, snapshots=facts))
    assert found.depends("wall") == ("jemalloc", "mimalloc", "tcmalloc")
    assert [k.differs for k in found.kinds] == [(), ("glibc tcache off",), ("a CPU quota of 0.5 processors",)]
    for treatment in found.depends("wall"):
        assert found.interaction("wall", treatment).low == "node2"
    speed = {s.node: s.interval for s in found.speeds if s.metric == "wall"}
    assert speed["node3"].low > 1.3


def test_each_kind_has_the_ratios_of_its_own_blocks() -> None:
    seen = observed(effects={("node2", "mimalloc"): 1.1}, snapshots={"node2": NO_TCACHE}, ratios={**EQUAL, "mimalloc": (0.9, 1.0)})
    found = machines_in(seen)
    for kind, truth in zip(found.kinds, (0.9, 0.99), strict=True):
        interval = kind.over_all("wall").of("mimalloc").interval
        assert interval.low <= truth <= interval.high and interval.high / interval.low < 1.03
    blocks = {o.block for o in seen.rows if o.node == "node2"}
    assert found.kinds[1].blocks == len(blocks)


def test_tiny_differences_that_are_beyond_doubt_do_not_matter() -> None:
    """Below the margin one ratio stands for all machines, however small its p."""
    record = simulate(2, 3, 30, noise=0.002, ratios=EQUAL)[1]
    off = on_fleet(record, effects={("node2", "mimalloc"): 1.008}, snapshots={"node2": HALF})
    interaction = machines_in(off.observations).interaction("wall", "mimalloc")
    assert interaction.p_value < 0.001 and interaction.answer == "alike"


def test_a_machine_with_one_block_is_left_out_and_named() -> None:
    record = on_fleet(simulate(2, 2, 7, ratios=EQUAL)[1], nodes=("node1", "node2", "node1", "node2", "node1", "node2", "late"),
                      snapshots={"late": HALF})
    found = machines_in(record.observations)
    assert found.too_few == ("late",) and [k.nodes for k in found.kinds] == [("node1", "node2")]


def test_kinds_are_compared_over_what_all_of_them_have() -> None:
    """Node 2 never ran the first program: its ratios, however odd, decide nothing there, and nothing breaks."""
    seen = observed(snapshots={"node2": NO_TCACHE}, effects={("node2", "mimalloc"): 1.1})
    first = seen.workloads[0]
    rows = tuple(replace(o, node="node1") if o.workload == first and o.node == "node2" else o for o in seen.rows)
    found = machines_in(replace(seen, rows=rows))
    assert found.workloads == seen.workloads[1:] and found.depends("wall") == ("mimalloc",)
    assert {k.over_all("wall").workloads for k in found.kinds} == {found.workloads}


def test_blocks_on_the_labs_own_machine_are_one_kind_more() -> None:
    seen = observed(nodes=("", "node1"), snapshots={"": NO_TCACHE}, effects={("", "mimalloc"): 1.1})
    found = machines_in(seen)
    assert [k.name for k in found.kinds] == ["lab", "node1"] and found.depends("wall") == ("mimalloc",)


def test_one_machine_alone_and_none() -> None:
    found = machines_in(on_fleet(simulate(2, 2, 4)[1], nodes=("only",)).observations)
    assert found.nodes == ("only",) and len(found.kinds) == 1 and found.interactions == found.speeds == ()
    assert simulate(2, 2, 4)[0].machines is None


@pytest.mark.on_request
@pytest.mark.parametrize("snapshots", [{}, {"node2": NO_TCACHE}])
def test_whole_fleets_of_equal_machines_raise_no_alarm(snapshots: dict, capsys) -> None:
    """Over allocators, kinds and the search for odd machines together, per metric; speeds differ. Prints what the docs say."""
    runs, alarms, split = 400, 0, 0
    for seed in range(runs):
        found = machines_in(observed(seed, 6, 2, EQUAL, speeds={"node2": 1.5}, snapshots=snapshots))
        alarms += bool(found.depends("wall"))
        split += any(k.split for k in found.kinds)
    with capsys.disabled():
        print(f"\n{len(snapshots) + 1} kinds: depends {100 * alarms / runs:.1f} %, split {100 * split / runs:.1f} % of {runs}")
    assert alarms / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.on_request
@pytest.mark.parametrize("factor", [1.02, 1.03, 1.05])
def test_one_odd_machine_of_three_is_found(factor: float, capsys) -> None:
    """Without a fact that tells it. Prints what the docs say."""
    runs, found = 200, 0
    for seed in range(runs):
        machines = machines_in(observed(seed, 12, 4, EQUAL, effects={("node2", "mimalloc"): factor}))
        found += [k.nodes for k in machines.kinds if k.split] == [("node2",)] and machines.depends("wall") == ("mimalloc",)
    with capsys.disabled():
        print(f"\nfactor {factor}: found in {100 * found / runs:.1f} % of {runs}")
