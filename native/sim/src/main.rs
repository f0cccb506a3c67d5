//! `nereus-sim`: runs seeds, repeats one, hunts mutants.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use nereus_core::mutant::Mutant;
use nereus_sim::hunt::{hunt, Hunted};
use nereus_sim::minimise::minimise;
use nereus_sim::runner::{run, Options, Outcome, Plan, Verdict};

/// Runs of the engine in a simulated world, judged by a reference model.
#[derive(Debug, Parser)]
#[command(name = "nereus-sim")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, value_name = "N", conflicts_with_all = ["replay", "mutants"])]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Runs one seed and prints its trace.
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
    /// Shortens what --replay found.
    #[arg(long, requires = "replay")]
    shorten: bool,
    /// Switches each deliberate bug on until a seed catches it; with --seeds-each at most so many.
    #[arg(long)]
    mutants: bool,
    /// Seeds per mutant.
    #[arg(long, value_name = "N", default_value_t = 3000)]
    seeds_each: u64,
    /// One mutant only, by name; also for --replay.
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
    /// Threads; 0 = one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// Runs that shortening may take.
const TRIES: usize = 400;
/// Failures that are shown in full.
const SHOWN: u64 = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mutant = match arguments.mutant.as_deref().map(find) {
        Some(None) => {
            eprintln!("error: no such mutant; there are: {}", names());
            return ExitCode::from(2);
        }
        found => found.flatten(),
    };
    let threads = match arguments.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        some => some,
    };
    match arguments.replay {
        Some(seed) => replay(seed, mutant, arguments.shorten),
        None if arguments.mutants => mutants(mutant, &arguments, threads),
        None => seeds(arguments.from, arguments.seeds.unwrap_or(500), threads),
    }
}

fn find(name: &str) -> Option<Mutant> {
    Mutant::ALL
        .iter()
        .find(|(_, known, _)| *known == name)
        .map(|(mutant, _, _)| *mutant)
}

fn names() -> String {
    let names: Vec<&str> = Mutant::ALL.iter().map(|(_, name, _)| *name).collect();
    names.join(", ")
}

fn replay(seed: u64, mutant: Option<Mutant>, shorten: bool) -> ExitCode {
    let options = Options { mutant, trace: true };
    let outcome = match shorten {
        true => minimise(&Plan::of(seed), &options, TRIES).1,
        false => run(seed, &options),
    };
    print!("{}", outcome.trace.text());
    let passed = outcome.verdict == Verdict::Passed;
    println!("sim: {} passed, {} failed", u8::from(passed), u8::from(!passed));
    ExitCode::from(u8::from(!passed))
}

fn seeds(from: u64, count: u64, threads: usize) -> ExitCode {
    let began = now();
    let (next, failed) = (AtomicU64::new(from), AtomicU64::new(0));
    let end = from.saturating_add(count);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return;
                }
                let outcome = run(seed, &Options::default());
                if let Verdict::Broken { violation, .. } = outcome.verdict {
                    if failed.fetch_add(1, Ordering::Relaxed) < SHOWN {
                        let options = Options {
                            mutant: None,
                            trace: true,
                        };
                        let (_, short) = minimise(&Plan::of(seed), &options, TRIES);
                        show(seed, &short);
                    } else {
                        println!("seed {seed} failed: {violation}");
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    let seconds = began.elapsed().as_secs_f64().max(0.001);
    println!(
        "{count} seeds in {seconds:.1} s on {threads} threads: {:.0} seeds a second",
        count as f64 / seconds
    );
    println!("sim: {} passed, {failed} failed", count - failed);
    ExitCode::from(u8::from(failed > 0 || count == 0))
}

fn show(seed: u64, outcome: &Outcome) {
    println!(
        "seed {seed} failed; the shortest program found:\n{}replay: scripts/sim --replay {seed}\n",
        outcome.trace.text()
    );
}

fn mutants(only: Option<Mutant>, arguments: &Arguments, threads: usize) -> ExitCode {
    let next = AtomicU64::new(0);
    let (caught, survived) = (AtomicU64::new(0), AtomicU64::new(0));
    let any = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((mutant, name, _)) = usize::try_from(at).ok().and_then(|at| Mutant::ALL.get(at)) else {
                    return;
                };
                if only.is_some_and(|only| only != *mutant) {
                    continue;
                }
                any.store(true, Ordering::Relaxed);
                match hunt(*mutant, arguments.from, arguments.seeds_each) {
                    Hunted::Caught { seed, runs, violation } => {
                        caught.fetch_add(1, Ordering::Relaxed);
                        println!(
                            "{name}: caught at seed {seed} by {} after {runs} seeds: {}",
                            violation.law,
                            first_line(&violation.what)
                        );
                    }
                    Hunted::Survived => {
                        survived.fetch_add(1, Ordering::Relaxed);
                        println!("{name}: SURVIVED {} seeds", arguments.seeds_each);
                    }
                }
            });
        }
    });
    let (caught, survived) = (caught.into_inner(), survived.into_inner());
    println!("mutants: {caught} caught, {survived} survived");
    ExitCode::from(u8::from(survived > 0 || !any.into_inner()))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(160).collect()
}

/// The only clock of the simulation: for the rate that is printed.
#[allow(
    clippy::disallowed_methods,
    reason = "measures the run itself; nothing simulated sees it"
)]
fn now() -> Instant {
    Instant::now()
}
