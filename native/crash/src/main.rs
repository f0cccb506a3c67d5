//! `nereus-crash`: kills the engine over and over and says whether it kept what it promised.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use nereus_crash::child::{self, Orders};
use nereus_crash::rounds::{self, Plan};

const EXIT_CODES: &str = "Exit codes:
  0  nothing was lost, doubled, reordered or acknowledged in vain
  1  something was; what is above the last line says what, and where the evidence is
  2  the command line is wrong
  3  the rounds could not be run";

/// Kills the engine of Nereus at seeded moments and checks what it kept.
#[derive(Parser)]
#[command(name = "nereus-crash", version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Process>,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Args)]
struct Rounds {
    /// How many times a process is ended
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// Decides what is asked for and when the kill is sent
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where data directories are made, each removed when it was sound; on a real disk
    #[arg(long, default_value = "build/crash")]
    place: PathBuf,
}

#[derive(Subcommand)]
enum Process {
    /// The process that is killed: works on a directory and reports on standard output
    Child {
        /// Its directory
        #[arg(long)]
        directory: PathBuf,
        /// Decides what it does
        #[arg(long)]
        seed: u64,
        /// Its number
        #[arg(long)]
        round: u64,
        /// Only open, report and close
        #[arg(long)]
        check_only: bool,
    },
}

fn main() -> ExitCode {
    let Arguments { command, rounds } = Arguments::parse();
    match command {
        Some(Process::Child {
            directory,
            seed,
            round,
            check_only,
        }) => child::run(&Orders {
            directory,
            seed,
            round,
            check_only,
        }),
        None => parent(rounds),
    }
}

fn parent(arguments: Rounds) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(reason) => {
            eprintln!("nereus-crash: this program is not found: {reason}");
            return ExitCode::from(3);
        }
    };
    let plan = Plan {
        program,
        place: arguments.place,
        seed: arguments.seed,
        rounds: arguments.rounds,
    };
    let run = rounds::run(&plan, |so_far| {
        if so_far.rounds % 25 == 0 && so_far.rounds < plan.rounds {
            eprintln!("crash: {so_far}");
        }
    });
    match run {
        Ok(verdict) => {
            verdict.notes.iter().for_each(|note| eprintln!("{note}"));
            println!("crash: {verdict}");
            ExitCode::from(u8::from(!verdict.is_clean()))
        }
        Err(reason) => {
            eprintln!("nereus-crash: {reason}");
            ExitCode::from(3)
        }
    }
}
