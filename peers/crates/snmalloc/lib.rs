//! Empty: this package only pins snmalloc-sys.
