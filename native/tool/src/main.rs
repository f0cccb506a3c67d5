//! The operator tool of Nereus: looks into a data directory, never writes.
//!
//! Uses the engine's own decoders. Works beside a running broker; what that is writing at the moment may then show as an
//! unfinished tail, or a file may be gone before it is read: look again.

mod directory;
mod inspect;
mod verify;
mod walk;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nereus_core::Result;

use directory::Directory;

const EXIT_CODES: &str = "Exit codes:
  0  done; with verify: everything that was acknowledged is sound
  1  verify found damage, or inspect met some
  2  the command line is wrong
  3  the directory cannot be looked at: it is no data directory, was written by a newer Nereus, or cannot be read";

/// Looks into a Nereus data directory. Never writes.
#[derive(Parser)]
#[command(name = "nereus", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows identity, checkpoint, segments and the heads of all streams
    #[command(after_help = EXIT_CODES)]
    Inspect {
        /// The data directory (nereusDataDirectory)
        directory: PathBuf,
    },
    /// Checks every checksum: frames, slices, entries, records, metadata files
    #[command(after_help = EXIT_CODES)]
    Verify {
        /// The data directory (nereusDataDirectory)
        directory: PathBuf,
    },
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Sound,
    Damaged,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = io::stdout().lock();
    match run(&arguments.command, &mut out) {
        Ok(Outcome::Sound) => ExitCode::SUCCESS,
        Ok(Outcome::Damaged) => ExitCode::from(1),
        Err(error) => {
            // A closed terminal is no reason to hide the exit code.
            let _ = writeln!(io::stderr(), "nereus: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(command: &Command, out: &mut dyn Write) -> Result<Outcome> {
    match command {
        Command::Inspect { directory } => inspect::inspect(&Directory::open(directory)?, out),
        Command::Verify { directory } => verify::verify(&Directory::open(directory)?, out),
    }
}
