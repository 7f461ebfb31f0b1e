//! Empty: this package only pins tikv-jemalloc-sys.
