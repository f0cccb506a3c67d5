//! Shortens a failing program: steps are taken out, in halves, then smaller parts, as long as some law stays broken.

use crate::runner::{run_plan, Options, Outcome, Plan, Verdict};

/// The shortest failing plan that was found within `tries` runs, with its run.
pub fn minimise(plan: &Plan, options: &Options, tries: usize) -> (Plan, Outcome) {
    let options = Options {
        trace: true,
        ..*options
    };
    let mut best = plan.clone();
    let mut outcome = run_plan(&best, &options);
    let mut left = tries;
    let mut part = best.len().div_ceil(2);
    while part > 0 {
        let mut from = 0;
        let mut shorter = false;
        while from < best.len() && left > 0 {
            left -= 1;
            let to = from + part;
            let candidate = best.with_steps(|at| at < from || at >= to);
            let tried = run_plan(&candidate, &options);
            match tried.verdict {
                Verdict::Broken { .. } => {
                    (best, outcome, shorter) = (candidate, tried, true);
                }
                Verdict::Passed => from = to,
            }
        }
        if left == 0 {
            break;
        }
        if !(shorter && part == 1) {
            part /= 2;
        }
    }
    (best, outcome)
}
