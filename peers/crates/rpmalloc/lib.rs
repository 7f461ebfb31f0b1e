//! Empty: this package only pins rpmalloc-sys.
