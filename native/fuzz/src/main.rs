//! `nereus-fuzz`: decodes inputs made from seeds and says which promises were broken.
//!
//! Exit 0 = none was; 1 = some were, with the line that replays each; 2 = bad arguments.

use std::alloc::System;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cap::Cap;
use clap::Parser;
use nereus_fuzz::run::{self, Verdict};
use nereus_fuzz::{corpus, targets};

/// More than this at once is refused, which ends the process: no decoder may ask for it.
const MOST_MEMORY: usize = 2 << 30;
/// A process that decodes the same input for so long is stopped.
const STUCK: Duration = Duration::from_secs(60);
/// Failures that are printed; the rest is counted.
const SHOWN: u64 = 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MOST_MEMORY);

/// The seed that is decoded now, for the watch; `u64::MAX` = none.
static CURRENT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Decodes inputs made from seeds with every decoder of the core.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Number of inputs.
    #[arg(long, default_value_t = 100_000)]
    inputs: u64,
    /// Seed of the first input; the others follow. Chosen by the clock when it is not given.
    #[arg(long)]
    from: Option<u64>,
    /// Processes at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: u64,
    /// Decodes the input of this seed only, and shows it.
    #[arg(long)]
    replay: Option<u64>,
    /// Adds the input of this seed to the corpus.
    #[arg(long)]
    keep: Option<u64>,
    /// Adds chosen inputs of every target to the corpus.
    #[arg(long)]
    write_corpus: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.replay {
        return replay(seed);
    }
    if arguments.write_corpus || arguments.keep.is_some() {
        let directory = corpus::directory();
        let written = match arguments.keep {
            Some(seed) => corpus::keep(&directory, seed).map(|_| 1),
            None => corpus::write(&directory),
        };
        return match written {
            Ok(written) => {
                println!("corpus: {written} inputs in {}", directory.display());
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {}: {error}", directory.display());
                ExitCode::FAILURE
            }
        };
    }
    let from = arguments.from.unwrap_or_else(by_the_clock);
    match arguments.jobs {
        1 => alone(from, arguments.inputs),
        jobs => together(from, arguments.inputs, jobs),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a different start for every run; the run prints it"
)]
fn by_the_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // Leaves room for the seeds that follow.
    now.map_or(0, |now| now.as_secs() << 24)
}

fn replay(seed: u64) -> ExitCode {
    let (input, verdict) = run::seed(seed, Some(allocated));
    println!(
        "seed {seed}: target {}, {:?}, {} bytes",
        input.target.name,
        input.kind,
        input.bytes.len()
    );
    for row in input.bytes.chunks(32).take(64) {
        println!("  {}", row.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    match verdict {
        Verdict::Failed(broken) => {
            println!("FAILED: {broken}");
            ExitCode::FAILURE
        }
        verdict => {
            println!("{verdict:?}");
            ExitCode::SUCCESS
        }
    }
}

fn allocated() -> usize {
    ALLOCATOR.total_allocated()
}

/// All inputs in this process.
fn alone(from: u64, inputs: u64) -> ExitCode {
    watch();
    // A panic is a result here, and is printed with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let mut failures = 0u64;
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for seed in (from..).take(usize::try_from(inputs).unwrap_or(usize::MAX)) {
        CURRENT.store(seed, Ordering::Relaxed);
        let (input, verdict) = run::seed(seed, Some(allocated));
        let count = counts.entry(input.target.name).or_default();
        count.0 += 1;
        match verdict {
            Verdict::Accepted => count.1 += 1,
            Verdict::Refused => {}
            Verdict::Failed(broken) => {
                failures += 1;
                if failures <= SHOWN {
                    println!(
                        "FAILED {}: {broken}; replay: nereus-fuzz --replay {seed}",
                        input.target.name
                    );
                }
            }
        }
    }
    CURRENT.store(u64::MAX, Ordering::Relaxed);
    for target in targets::ALL {
        let (seen, accepted) = counts.get(target.name).copied().unwrap_or_default();
        println!("{:<10} {seen:>9} inputs, {accepted:>9} accepted", target.name);
    }
    println!("fuzz: {inputs} inputs, {failures} failures");
    match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Ends the process when one input does not end.
#[allow(
    clippy::disallowed_methods,
    reason = "a watch over this process needs a real thread and a real clock"
)]
fn watch() {
    thread::spawn(|| {
        let mut before = u64::MAX;
        loop {
            thread::sleep(STUCK);
            let current = CURRENT.load(Ordering::Relaxed);
            if current == before && current != u64::MAX {
                println!("FAILED: seed {current} does not end; replay: nereus-fuzz --replay {current}");
                std::process::exit(1);
            }
            before = current;
        }
    });
}

/// The inputs spread over processes; a process that dies is a failure.
fn together(from: u64, inputs: u64, jobs: u64) -> ExitCode {
    println!(
        "fuzz: seeds {from} to {}",
        from.saturating_add(inputs).saturating_sub(1)
    );
    let mut children = Vec::new();
    for job in 0..jobs {
        let (first, last) = (inputs * job / jobs, inputs * (job + 1) / jobs);
        let child = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .args(["--from", &from.saturating_add(first).to_string()])
                .args(["--inputs", &(last - first).to_string()])
                .stdout(Stdio::piped())
                .spawn()
        });
        match child {
            Ok(child) => children.push(child),
            Err(error) => {
                eprintln!("error: a process cannot be started: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let (mut failures, mut counts) = (0, BTreeMap::<String, (u64, u64)>::new());
    for child in children {
        let Ok(output) = child.wait_with_output() else {
            failures += 1;
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let mut own = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["fuzz:", _, "inputs,", count, "failures"] => own = count.parse().unwrap_or(1),
                [target, seen, "inputs,", accepted, "accepted"] => {
                    let count = counts.entry(target.to_owned()).or_default();
                    count.0 += seen.parse::<u64>().unwrap_or(0);
                    count.1 += accepted.parse::<u64>().unwrap_or(0);
                }
                _ => println!("{line}"),
            }
        }
        if own == 0 && !output.status.success() {
            println!("FAILED: a process ended with {}", output.status);
            own = 1;
        }
        failures += own;
    }
    for (target, (seen, accepted)) in counts {
        println!("{target:<10} {seen:>9} inputs, {accepted:>9} accepted");
    }
    println!("fuzz: {inputs} inputs, {failures} failures");
    match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
