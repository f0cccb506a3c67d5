//! The operator tool of Nereus.
fn main() {}
