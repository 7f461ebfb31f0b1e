//! Empty: this package only pins libmimalloc-sys.
