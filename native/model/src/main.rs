//! `nereus-model`: checks the formal model of the two-step path and shows what each of its guards is for.
//!
//! Exit 0 = no law is violated with all guards, every situation occurred, and without any one guard its law is violated; 1 = not so;
//! 2 = bad arguments.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use nereus_model::check::{self, Seen, SMALL, WHOLE};
use nereus_model::guard::Guard;
use nereus_model::step::Bounds;

/// Checks every interleaving of append, commit, crash, take-over and settlement against the laws L1 to L6.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Print the whole trace of every counter-example.
    #[arg(long)]
    traces: bool,
    /// Threads of the large runs.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let threads = usize::from(arguments.threads);
    let (mut states, mut violations, mut found) = (0, 0, 0);
    for bounds in WHOLE {
        let (seen, time) = timed(|| check::whole(bounds, threads));
        report(&name(bounds), &seen, time);
        for violation in &seen.violations {
            println!("  VIOLATED {}", violation.law);
            violation.trace.iter().for_each(|line| println!("    {line}"));
        }
        states += seen.states;
        violations += seen.violations.len();
    }
    let (seen, time) = timed(|| check::situations(SMALL, threads));
    report("situations that must occur", &seen, time);
    let vacuous = !seen.missing.is_empty();
    seen.missing.iter().for_each(|name| println!("  NEVER SEEN: {name}"));
    for guard in Guard::ALL {
        let (seen, time) = timed(|| check::without(guard, SMALL));
        report(&format!("without {}", guard.name()), &seen, time);
        println!("  guard: {}", guard.demands());
        let Some(violation) = seen.violations.first() else {
            println!("  NO COUNTER-EXAMPLE to {}", guard.protects().name());
            continue;
        };
        found += 1;
        println!("  violates {} in {} steps", violation.law, violation.trace.len());
        let shown = if arguments.traces {
            0
        } else {
            violation.trace.len().saturating_sub(3)
        };
        if shown > 0 {
            println!("    ... {shown} steps before (--traces shows them)");
        }
        violation
            .trace
            .iter()
            .skip(shown)
            .for_each(|line| println!("    {line}"));
    }
    println!(
        "model: {states} states, {violations} violations, {found} of {} counter-examples",
        Guard::ALL.len()
    );
    match violations == 0 && !vacuous && found == Guard::ALL.len() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn name(bounds: Bounds) -> String {
    let Bounds { owners, appends, late } = bounds;
    format!("all guards, {owners} owners with {appends} appends each, {late} writes on their way")
}

fn report(name: &str, seen: &Seen, time: Duration) {
    println!(
        "{name}: {} states, depth {}, {:.1} s",
        seen.states,
        seen.depth,
        time.as_secs_f64()
    );
}

#[allow(clippy::disallowed_methods, reason = "only measures how long a run took")]
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let seen = run();
    (seen, started.elapsed())
}
