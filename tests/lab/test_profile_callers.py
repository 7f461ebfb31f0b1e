# SPDX-License-Identifier: Apache-2.0
"""Lines of callers: as many as fit, and chains that begin alike told apart."""

from __future__ import annotations

from heapyard.profile.callers import caller_lines
from hypothesis import example, given
from hypothesis import strategies as st


def test_a_chain_alone_is_shown_from_its_innermost_caller_on():
    assert caller_lines([["malloc_it", "parse", "read", "main"]], 40) == ["< parse < read < main"]
    assert caller_lines([["malloc_it", "parse", "read", "main"]], 20) == ["< parse < read < …"]
    assert caller_lines([["malloc_it"]], 20) == [""]
    assert caller_lines([], 20) == []


def test_chains_that_begin_alike_are_shown_from_where_they_part():
    wrapped = ["around", "allocate", "run"]
    chains = [["new", *wrapped, "nets", "main"], ["new", *wrapped, "shapes", "main"], ["other", *wrapped, "shapes", "main"]]
    assert caller_lines(chains, 23) == ["< … < nets < main", "< … < shapes < main", "< around < allocate < …"]


def test_some_part_further_out_than_others():
    chains = [["new", "a" * 8, "b" * 8, *rest] for rest in (["x"], ["y", "c" * 9, "p"], ["y", "c" * 9, "q"])]
    assert caller_lines(chains, 16) == ["< … < x", "< … < p", "< … < q"]


def test_one_that_ends_where_others_go_on():
    deep = ["new", "a" * 8, "b" * 8, "c" * 8]
    assert caller_lines([deep, [*deep, "main"]], 20) == ["< … < cccccccc", "< … < main"]


def test_chains_that_are_the_same_throughout_stay_so():
    assert caller_lines([["new", "f", "g"], ["new", "f", "g"]], 40) == ["< f < g", "< f < g"]


def test_chains_of_the_same_names_are_told_apart_by_their_places():
    chains, places = [["new", "f", "g", "h"]] * 3, [["", "a:1", "b:2", "c:3"], ["", "a:1", "b:7", "c:3"], ["", "a:1", "b:2", "c:3"]]
    assert caller_lines(chains, 16, places) == ["< … < g b:2 < …", "< … < g b:7 < …", "< … < g b:2 < …"]
    assert caller_lines(chains[:1], 22, places[:1]) == ["< f < g < h"]


def test_a_name_too_long_is_cut_at_its_beginning():
    assert caller_lines([["new", "very::long::name::of_it"]], 16) == ["< …:name::of_it"]
    assert caller_lines([["new", "of_it", "main"]], 7) == ["< …"]
    long = "n" * 40
    assert caller_lines([["new", long, "f"], ["new", "m" + long, "f"]], 20) == ["< …nnnnnnnnnnnnn < …"] * 2  # no endless search


NAMES = st.lists(st.sampled_from(["f", "g", "a_longer_name", "the_longest_name_of_all_of_them"]), min_size=1, max_size=9)


@given(st.lists(NAMES, max_size=8), st.integers(16, 60))
def test_lines_fit_and_are_the_same_for_the_same_chain(chains: list[list[str]], room: int):
    lines = caller_lines(chains, room)
    assert len(lines) == len(chains) and all(len(line) <= room for line in lines)
    for one, left in zip(chains, lines, strict=True):
        assert all(left == right for other, right in zip(chains, lines, strict=True) if one == other)


@given(NAMES, NAMES, st.integers(40, 60))
@example(["the_longest_name_of_all_of_them"] * 3, ["the_longest_name_of_all_of_them"] * 4, 40)
def test_two_chains_have_two_lines(one: list[str], other: list[str], room: int):
    left, right = caller_lines([["malloc_it", *one], ["malloc_it", *other]], room)
    assert (left == right) == (one == other)
