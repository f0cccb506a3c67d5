//! Random programs: what is done to an engine, with which faults, step by step.
//!
//! Promises: a program is a function of its seed; each step carries its own dice, so that a step does the same whatever was taken
//! out before it.

use std::io::ErrorKind;

use nereus_core::env::sim::{Operation, SimRandom};
use nereus_core::env::Random;
use nereus_core::metadata::faults::Fault;

/// Largest entry, bytes.
pub const MAX_ENTRY: u32 = 40 << 10;

/// One step. Topics and cursors are numbers.
#[derive(Debug, Clone)]
#[allow(
    missing_docs,
    reason = "the fields say what they are; `permille` picks a place between two bounds"
)]
pub enum Step {
    /// A writable open: the first, a take-over, or after a deletion.
    Open {
        topic: usize,
        create: bool,
        properties: u64,
    },
    /// A look with a handle that claims nothing.
    Look {
        topic: usize,
    },
    /// Appends that are not waited for.
    Append {
        topic: usize,
        sizes: Vec<u32>,
    },
    /// After a failed append.
    Resume {
        topic: usize,
    },
    /// Everything asked for is waited for.
    Settle,
    /// Virtual time passes.
    Pause {
        micros: u64,
    },
    /// A read that may go on beside the next steps.
    Read {
        topic: usize,
        permille: u64,
        entries: u32,
        bytes: u64,
        wait: bool,
    },
    /// Everything is read and compared.
    ReadAll {
        topic: usize,
    },
    /// Waits for an entry that may never come.
    WaitPast {
        topic: usize,
        more: u64,
    },
    /// A cursor is created or moved.
    Persist {
        topic: usize,
        cursor: usize,
        wait: bool,
    },
    /// A cursor is deleted.
    DeleteCursor {
        topic: usize,
        cursor: usize,
    },
    Trim {
        topic: usize,
        permille: u64,
        wait: bool,
    },
    Truncate {
        topic: usize,
    },
    Terminate {
        topic: usize,
    },
    SetProperties {
        topic: usize,
    },
    /// A handle is closed.
    Close {
        topic: usize,
    },
    Delete {
        topic: usize,
    },
    /// An owner of an old epoch asks the journal for changes.
    Stale {
        topic: usize,
    },
    /// The head of an ACTIVE topic is taken away behind the engine's back.
    Behead {
        topic: usize,
    },
    Checkpoint,
    /// The power fails in the middle of a coming mutation of the disk, perhaps again during the recovery from that.
    Crash {
        after: u64,
        again: Option<u64>,
        look: bool,
    },
    /// The process ends here.
    Kill {
        look: bool,
    },
    /// The engine is closed and opened.
    Restart,
    DiskFault {
        operation: Operation,
        after: u64,
        times: u64,
        kind: ErrorKind,
    },
    BrokerFault {
        nth: u64,
        fault: Fault,
    },
    BrokerReads {
        fail: bool,
    },
    BrokerDelay {
        micros: u64,
    },
    /// What the broker's store had held back arrives.
    Arrive,
    /// The disk shrinks to this much free space.
    Shrink {
        free: u64,
    },
    Grow,
    /// One bit of a file flips while the engine is down.
    Flip,
}

/// A step with its dice.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its number in the program as generated.
    pub number: usize,
    /// What is done.
    pub step: Step,
    /// Decides everything else about it.
    pub salt: u64,
}

/// What the engine is opened with.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of frames between checkpoints.
    pub checkpoint_bytes: u64,
    /// Heads and keys between checkpoints.
    pub checkpoint_dirty: usize,
    /// Soft bound of a group.
    pub group_bytes: usize,
    /// Free bytes that are kept.
    pub reserve_bytes: u64,
}

/// A whole program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it comes from.
    pub seed: u64,
    /// What the engine is opened with.
    pub setup: Setup,
    /// How many topics it works on.
    pub topics: usize,
    /// The steps.
    pub items: Vec<Item>,
}

/// Which kinds of trouble a program has.
struct Mood {
    crashes: bool,
    disk: bool,
    broker: bool,
    space: bool,
    damage: bool,
    behead: bool,
    large: bool,
}

impl Program {
    /// The program of a seed.
    pub fn generate(seed: u64) -> Program {
        let random = SimRandom::new(seed ^ 0x9a09_4a11);
        let mood = Mood {
            crashes: random.chance(75),
            disk: random.chance(25),
            broker: random.chance(25),
            space: random.chance(12),
            damage: random.chance(18),
            behead: random.chance(5),
            large: random.chance(35),
        };
        // Damage is judged most sharply when nothing else may excuse an error.
        let mood = match mood.damage {
            true => Mood {
                disk: false,
                broker: false,
                space: false,
                ..mood
            },
            false => mood,
        };
        let setup = Setup {
            segment_bytes: 256 << 10,
            checkpoint_bytes: (16 << 10) << random.below(5),
            checkpoint_dirty: 8 << random.below(5),
            group_bytes: (8 << 10) << random.below(4),
            reserve_bytes: if mood.space { 512 << 10 } else { 0 },
        };
        let topics = 1 + usize::try_from(random.below(3)).unwrap_or(0);
        let count = 15 + random.below(45);
        let mut items = Vec::new();
        for topic in 0..topics {
            let step = Step::Open {
                topic,
                create: true,
                properties: random.below(3),
            };
            items.push(step);
        }
        while (items.len() as u64) < count {
            let topic = usize::try_from(random.below(topics as u64)).unwrap_or(0);
            items.push(step(&random, &mood, topic));
        }
        let number = |(number, step)| Item {
            number,
            step,
            salt: random.next_u64(),
        };
        let items = items.into_iter().enumerate().map(number).collect();
        Program {
            seed,
            setup,
            topics,
            items,
        }
    }
}

fn step(random: &SimRandom, mood: &Mood, topic: usize) -> Step {
    let cursor = usize::try_from(random.below(2)).unwrap_or(0);
    let permille = random.below(1001);
    let wait = random.chance(60);
    loop {
        let step = match random.below(100) {
            0..=5 => Step::Open {
                topic,
                create: random.chance(80),
                properties: random.below(3),
            },
            6..=7 => Step::Look { topic },
            8..=33 => Step::Append {
                topic,
                sizes: sizes(random, mood),
            },
            34 => Step::Resume { topic },
            35..=39 => Step::Settle,
            40..=43 => Step::Pause {
                micros: 1 << random.below(17),
            },
            44..=50 => Step::Read {
                topic,
                permille,
                entries: 1 + u32::try_from(random.below(20)).unwrap_or(0),
                bytes: 1 << random.below(18),
                wait,
            },
            51 => Step::ReadAll { topic },
            52 => Step::WaitPast {
                topic,
                more: random.below(4),
            },
            53..=61 => Step::Persist { topic, cursor, wait },
            62 => Step::DeleteCursor { topic, cursor },
            63..=67 => Step::Trim { topic, permille, wait },
            68 => Step::Truncate { topic },
            69 if random.chance(60) => Step::Terminate { topic },
            70 => Step::SetProperties { topic },
            71 => Step::Close { topic },
            72..=73 => Step::Delete { topic },
            74 => Step::Stale { topic },
            75 if mood.behead => Step::Behead { topic },
            76..=77 => Step::Checkpoint,
            78..=82 if mood.crashes => Step::Crash {
                after: random.below(if random.chance(30) { 4 } else { 60 }),
                again: random.chance(35).then(|| random.below(30)),
                look: random.chance(80),
            },
            83..=84 if mood.crashes => Step::Kill {
                look: random.chance(80),
            },
            85..=86 => Step::Restart,
            87..=89 if mood.disk => disk_fault(random),
            90..=92 if mood.broker => Step::BrokerFault {
                nth: 1 + random.below(3),
                fault: [Fault::Refuse, Fault::LoseAnswer, Fault::Late][usize::try_from(random.below(3)).unwrap_or(0)],
            },
            93 if mood.broker => Step::BrokerReads {
                fail: random.chance(50),
            },
            94 if mood.broker => Step::BrokerDelay {
                micros: random.below(3) * 700,
            },
            95 if mood.broker => Step::Arrive,
            96 if mood.space => Step::Shrink {
                free: random.below(700 << 10),
            },
            97 if mood.space => Step::Grow,
            98..=99 if mood.damage => Step::Flip,
            _ => continue,
        };
        return step;
    }
}

fn sizes(random: &SimRandom, mood: &Mood) -> Vec<u32> {
    let count = if random.chance(70) {
        1 + random.below(4)
    } else {
        1 + random.below(24)
    };
    let size = |_| match random.below(100) {
        0..=4 => 0,
        5..=9 => random.below(8),
        10..=79 => 8 + random.below(200),
        80..=94 => random.below(6000),
        _ if mood.large => u64::from(MAX_ENTRY) - random.below(3),
        _ => random.below(20_000),
    };
    (0..count)
        .map(size)
        .map(|size| u32::try_from(size).unwrap_or(0))
        .collect()
}

fn disk_fault(random: &SimRandom) -> Step {
    let operations = [
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::Sync,
        Operation::Sync,
        Operation::Allocate,
        Operation::Open,
        Operation::Directory,
    ];
    let operation = operations[usize::try_from(random.below(operations.len() as u64)).unwrap_or(0)];
    let kind = match (operation, random.below(4)) {
        (Operation::Write | Operation::Allocate, 0) => ErrorKind::StorageFull,
        _ => ErrorKind::Other,
    };
    Step::DiskFault {
        operation,
        after: random.below(20),
        times: 1 + random.below(2),
        kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_program() {
        let shown = |seed| format!("{:?}", Program::generate(seed));
        assert_eq!(shown(5), shown(5));
        assert_ne!(shown(5), shown(6));
    }
}
