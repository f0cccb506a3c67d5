//! Rounds: start a child, kill it at a seeded moment, let the next one say what is there.
//!
//! Promises: a round ends with a kill or an orderly close, never by luck; each is followed by a report, of the next round or of a
//! last child that only looks. A directory is kept as evidence when something is wrong with it.
//! Does not: give the same run twice: a seed fixes what is asked for and when the kill is sent, not how far the child came.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes are killed by real clocks; there is no environment to take them from"
)]

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::child::{Orders, CLOSE};
use crate::event::Event;
use crate::model::Model;
use crate::random::Random;
use crate::verdict::Verdict;

/// Rounds on one directory before a fresh one is taken.
const ROUNDS_PER_DIRECTORY: u64 = 25;
/// Nothing in the pipe for so long means that the child hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program whose `child` command is started.
    pub program: PathBuf,
    /// Where directories are made; on a real disk.
    pub place: PathBuf,
    /// Decides everything that can be decided.
    pub seed: u64,
    /// How many kills and closes.
    pub rounds: u64,
}

/// When a child ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Killed so long after its start, wherever it is.
    EarlyKill(Duration),
    /// Killed so long after so many events of its work.
    Kill(u64, Duration),
    /// Told to close after so many events, and killed so long after that, if it is not done.
    Close(u64, Duration),
    /// Only looks; is waited for.
    Look,
}

/// Runs all rounds; says how it goes through `progress`.
///
/// # Errors
/// When a child cannot be started or directories cannot be made.
pub fn run(plan: &Plan, mut progress: impl FnMut(&Verdict)) -> io::Result<Verdict> {
    fs::create_dir_all(&plan.place)?;
    let mut random = Random::new(plan.seed);
    let mut total = Verdict::default();
    let mut round = 0;
    while round < plan.rounds {
        let directory = tempfile::Builder::new().prefix("crash-").tempdir_in(&plan.place)?;
        let mut model = Model::default();
        let mut verdict = Verdict::default();
        let last = round.saturating_add(ROUNDS_PER_DIRECTORY).min(plan.rounds);
        while round < last && verdict.is_clean() {
            round = round.saturating_add(1);
            let end = end(&mut random);
            verdict += one(plan, directory.path(), random.number(), round, end, &mut model)?;
            verdict.rounds = verdict.rounds.saturating_add(1);
            let mut sum = total.clone();
            sum += verdict.clone();
            progress(&sum);
        }
        if verdict.is_clean() {
            verdict += one(plan, directory.path(), random.number(), round, End::Look, &mut model)?;
        }
        if !verdict.is_clean() {
            // Told whatever else was.
            verdict
                .notes
                .push(format!("kept for a look: {}", directory.keep().display()));
            total += verdict;
            return Ok(total);
        }
        total += verdict;
    }
    Ok(total)
}

fn end(random: &mut Random) -> End {
    let millis = |random: &mut Random, most| Duration::from_micros(random.below(most));
    match random.below(8) {
        0 => End::EarlyKill(millis(random, 120_000)),
        1 => End::Close(random.magnitude(4000), millis(random, 40_000)),
        2..=4 => End::Kill(random.magnitude(8000), millis(random, 3000)),
        _ => End::Kill(random.below(12_000), millis(random, 3000)),
    }
}

/// One child from its start to its end; the model takes what it wrote.
fn one(plan: &Plan, directory: &Path, seed: u64, round: u64, end: End, model: &mut Model) -> io::Result<Verdict> {
    let orders = Orders {
        directory: directory.to_owned(),
        seed,
        round,
        check_only: matches!(end, End::Look),
    };
    let mut child = start(&plan.program, &orders)?;
    let lines = lines_of(&mut child)?;
    let began = Instant::now();
    let mut verdict = Verdict::default();
    let mut seen = Seen::default();
    let mut log = Vec::new();
    let mut kill_at = match end {
        End::EarlyKill(after) => began.checked_add(after),
        _ => None,
    };
    let killed = loop {
        if kill_at.is_some_and(|at| at <= Instant::now()) {
            break true;
        }
        let patience = kill_at.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
        match lines.recv_timeout(patience) {
            Ok(line) => seen.take(line, model, &mut verdict, &mut log),
            Err(RecvTimeoutError::Timeout) => break true,
            Err(RecvTimeoutError::Disconnected) => break false,
        }
        match end {
            End::Kill(events, after) if kill_at.is_none() && seen.work >= events && seen.ready => {
                kill_at = Instant::now().checked_add(after);
            }
            End::Close(events, after) if kill_at.is_none() && seen.work >= events && seen.ready => {
                // A child that is gone already shows at the pipe.
                let _ = child.stdin.as_mut().map(|stdin| stdin.write_all(CLOSE.as_bytes()));
                kill_at = Instant::now().checked_add(after);
            }
            _ => {}
        }
    };
    if killed {
        child.kill()?;
        if kill_at.is_none() {
            verdict.note(format!("nothing came from the child for {} s", PATIENCE.as_secs()));
        }
    }
    // What was in the pipe before the kill counts.
    for line in lines.iter() {
        seen.take(line, model, &mut verdict, &mut log);
    }
    let status = child.wait()?;
    model.killed();
    let orderly = matches!(end, End::Close(..) | End::Look) && seen.closed && status.success();
    if !killed && !orderly {
        verdict.note(format!("the child ended by itself: {status}"));
    }
    if !verdict.is_clean() {
        let path = directory.join("events");
        fs::write(&path, log.join("\n"))?;
        verdict.note(format!(
            "round {round} ({end:?}); what the child wrote is in {}",
            path.display()
        ));
    }
    Ok(verdict)
}

#[derive(Default)]
struct Seen {
    ready: bool,
    closed: bool,
    work: u64,
}

impl Seen {
    fn take(&mut self, line: String, model: &mut Model, verdict: &mut Verdict, log: &mut Vec<String>) {
        match line.parse() {
            Ok(event) => {
                self.work = self.work.saturating_add(u64::from(self.ready));
                self.ready |= event == Event::Ready;
                self.closed |= event == Event::Closed;
                model.event(event, verdict);
            }
            Err(why) => verdict.note(why),
        }
        log.push(line);
    }
}

fn start(program: &Path, orders: &Orders) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg("child").arg("--directory").arg(&orders.directory);
    command.args(["--seed", &orders.seed.to_string(), "--round", &orders.round.to_string()]);
    if orders.check_only {
        command.arg("--check-only");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Whole lines of a child, until its end of the pipe is closed; what is cut off at the end is left out.
fn lines_of(child: &mut Child) -> io::Result<Receiver<String>> {
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (send, lines) = channel();
    std::thread::Builder::new()
        .name("pipe of the child".into())
        .spawn(move || {
            let mut reader = BufReader::new(output);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok() && line.pop() == Some(b'\n') {
                let text = String::from_utf8_lossy(&line).into_owned();
                if send.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        })?;
    Ok(lines)
}
