//! Random programs for owners that compete for one stream.

use nereus_core::env::sim::SimRandom;
use nereus_core::env::Random;
use nereus_core::metadata::faults::Fault;

/// One step. `old` = by an owner that was superseded, if there is one.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Step {
    /// Appends; `each` is waited for before the next.
    Append {
        old: bool,
        sizes: Vec<u32>,
        each: bool,
    },
    Resume {
        old: bool,
    },
    /// Everything that living owners were asked for is waited for, so long.
    Settle {
        millis: u64,
    },
    Pause {
        micros: u64,
    },
    /// A new owner while the present one goes on.
    TakeOver,
    Read {
        old: bool,
        permille: u64,
    },
    Trim {
        old: bool,
        permille: u64,
    },
    Terminate {
        old: bool,
    },
    Persist {
        old: bool,
        cursor: usize,
    },
    /// The `nth` coming write of an owner goes wrong.
    Fault {
        old: bool,
        nth: u64,
        fault: Fault,
    },
    Reads {
        old: bool,
        fail: bool,
    },
    /// What was held back arrives.
    Arrive {
        old: bool,
    },
    /// The present owner dies after so many more writes, and another one takes over.
    Die {
        writes: u64,
    },
    Delay {
        micros: u64,
    },
    RefuseWal {
        refuse: bool,
    },
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

/// A whole program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it comes from.
    pub seed: u64,
    /// The steps.
    pub items: Vec<Item>,
}

impl Program {
    /// The program of a seed.
    pub fn generate(seed: u64) -> Program {
        let random = SimRandom::new(seed ^ 0x2_57e9);
        let faults = random.chance(75);
        let count = 15 + random.below(50);
        let items = (0..)
            .map_while(|number| {
                ((number as u64) < count).then(|| Item {
                    number,
                    step: step(&random, faults),
                    salt: random.next_u64(),
                })
            })
            .collect();
        Program { seed, items }
    }
}

fn step(random: &SimRandom, faults: bool) -> Step {
    let old = random.chance(20);
    let permille = random.below(1001);
    loop {
        let step = match random.below(100) {
            0..=34 => {
                let each = random.chance(40);
                let count = 1 + random.below(if each { 14 } else { 8 });
                let sizes = (0..count)
                    .map(|_| u32::try_from(random.below(300)).unwrap_or(0))
                    .collect();
                Step::Append { old, sizes, each }
            }
            35..=38 => Step::Resume { old },
            39..=46 => Step::Settle {
                millis: 1 << random.below(15),
            },
            47..=50 => Step::Pause {
                micros: 1 << random.below(16),
            },
            51..=57 => Step::TakeOver,
            58..=64 => Step::Read { old, permille },
            65..=69 => Step::Trim { old, permille },
            70 if random.chance(40) => Step::Terminate { old },
            71..=76 => Step::Persist {
                old,
                cursor: usize::try_from(random.below(2)).unwrap_or(0),
            },
            77..=88 if faults => Step::Fault {
                old: random.chance(10),
                nth: 1 + random.below(4),
                fault: [Fault::Refuse, Fault::LoseAnswer, Fault::LoseAnswer, Fault::Late]
                    [usize::try_from(random.below(4)).unwrap_or(0)],
            },
            89 if faults => Step::Reads {
                old,
                fail: random.chance(40),
            },
            90..=92 if faults => Step::Arrive { old },
            93..=94 => Step::Die {
                writes: random.below(4),
            },
            95..=97 => Step::Delay {
                micros: random.below(4) * 900,
            },
            98..=99 if faults => Step::RefuseWal {
                refuse: random.chance(40),
            },
            _ => continue,
        };
        return step;
    }
}
