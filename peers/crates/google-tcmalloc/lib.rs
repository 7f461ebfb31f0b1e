//! Empty: this package only pins libtcmalloc-sys.
