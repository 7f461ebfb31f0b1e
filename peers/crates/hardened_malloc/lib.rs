//! Empty: this package only pins hardened-malloc-sys.
