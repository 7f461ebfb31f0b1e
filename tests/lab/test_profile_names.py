# SPDX-License-Identifier: Apache-2.0
"""Names of functions as people read them."""

from __future__ import annotations

import shutil

import pytest
from heapyard.profile.chains import short
from heapyard.profile.symbols import rust_names


@pytest.mark.parametrize("name, told", [
    ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"),
    ("bool operator< <int>(a, b)", "operator<"),
    ("std::ostream& std::operator<< <char>(std::ostream&, char)", "std::operator<<"),
    ("T::operator>>=(int)", "T::operator>>="),
    ("std::weak operator<=> <T>(T, T)", "operator<=>"),
    ("T<int>::operator->*<U>(U) const", "T::operator->*"),
    ("T::operator unsigned int() const", "T::operator unsigned int"),
    ("auto kit::(anonymous namespace)::around<f(int)::{lambda(int)#1}>(int) const", "kit::around"),
    ("f::{lambda(auto:1)#1}::operator()<int>(int) const [clone .isra.0] [clone .cold]", "f::{lambda#1}::operator()"),
    ("a library.so+0x1f", "a library.so+0x1f"),
    ("Widget::operator()(int) const", "Widget::operator()"),
    ("<alloc::vec::Vec<T, A> as core::iter::Collect<Vec<T>>>::from_iter", "alloc::vec::Vec::from_iter"),
    ("<std::thread::Thread>::new::start", "std::thread::Thread::new::start"),
    ("std::rt::lang_start::{{closure}}", "std::rt::lang_start::{{closure}}"),
])
def test_a_short_name_has_no_types_in_it(name: str, told: str):
    assert short(name) == told
    assert len(short(name, 12)) <= 12


LEGACY = {
    "it::kept_by_main::h39c04d2175f2cd12": "it::kept_by_main",
    "core::ops::FnOnce::call_once$u7b$$u7b$vtable.shim$u7d$$u7d$::h39c04d2175f2cd12": "core::ops::FnOnce::call_once{{vtable.shim}}",
    "std::rt::lang_start::_$u7b$$u7b$closure$u7d$$u7d$::h60ef029782ffe9e9": "std::rt::lang_start::{{closure}}",
    "_$LT$alloc..vec..Vec$LT$T$C$A$GT$$u20$as$u20$a..B$LT$T$GT$$GT$::from_iter::h0123456789abcdef":
        "<alloc::vec::Vec<T, A> as a::B<T>>::from_iter",
}


def test_names_of_rust_are_readable_and_the_same_in_every_build():
    assert rust_names(["main", "std::vector<int>::at", *LEGACY]) == LEGACY


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt")
def test_names_of_rust_in_its_present_mangling():
    mangled = "_RNvNvMs0_NtNtNtCsjrHSEGnQ3l9_3std3sys6thread4unixNtB7_6Thread3new12thread_start"
    assert rust_names([mangled, "_Z3foov"]) == {mangled: "<std::sys::thread::unix::Thread>::new::thread_start"}
