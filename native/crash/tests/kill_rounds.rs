//! A few rounds for every change; `scripts/crash` runs as many as one likes.

use std::path::PathBuf;

use nereus_crash::rounds::{run, Plan};

#[test]
fn l01_l04_l15_nothing_acknowledged_is_lost_doubled_reordered_or_acked_again_by_ten_kills() {
    let plan = Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_nereus-crash")),
        place: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        seed: 4,
        rounds: 10,
    };
    let verdict = run(&plan, |_| {}).unwrap();
    assert!(verdict.is_clean(), "{verdict}:\n{}", verdict.notes.join("\n"));
    assert!(verdict.acknowledged > 0, "children came to their work");
}
