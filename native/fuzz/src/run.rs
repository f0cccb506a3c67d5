//! One input: made from its seed, decoded, judged.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use crate::mutate;
use crate::random::Random;
use crate::targets::{Target, ALL};

/// Longest time that one input may take. Work is bounded by what it allocates; this only finds what never ends, on a busy machine too.
pub const LONGEST: Duration = Duration::from_secs(10);

/// Bytes allocated since the process began, as the program's allocator counts them.
pub type Allocated = fn() -> usize;

/// How an input was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes by chance.
    Random,
    /// A valid encoding as it is.
    Valid,
    /// A valid encoding, damaged.
    Damaged,
    /// A valid encoding, damaged, its lengths and checksums right again.
    Mended,
}

/// An input.
pub struct Input {
    /// Who decodes it.
    pub target: &'static Target,
    /// How it was made.
    pub kind: Kind,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What the judge says.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Decoded, and written again as an equal value.
    Accepted,
    /// Refused with an error.
    Refused,
    /// A broken promise.
    Failed(String),
}

/// The input of a seed.
pub fn input(seed: u64) -> Input {
    let mut random = Random::new(seed);
    let sum: u64 = ALL.iter().map(|target| target.weight).sum();
    let mut left = random.below(sum);
    let target = ALL.iter().find(|target| {
        let here = left < target.weight;
        left = left.saturating_sub(target.weight);
        here
    });
    let target = target.unwrap_or(&ALL[0]);
    let kind = match random.below(20) {
        0 | 1 => Kind::Random,
        2 => Kind::Valid,
        3..=7 => Kind::Damaged,
        _ => Kind::Mended,
    };
    let mut bytes = match kind {
        Kind::Random => {
            let length = random.index(300);
            random.bytes(length)
        }
        _ => (target.valid)(&mut random),
    };
    match kind {
        Kind::Random | Kind::Valid => {}
        Kind::Damaged => mutate::bytes(&mut bytes, &mut random),
        Kind::Mended => {
            (target.twist)(&mut bytes, &mut random);
            (target.mend)(&mut bytes);
        }
    }
    Input { target, kind, bytes }
}

/// Decodes and judges. Without a counter nothing is said about memory.
pub fn judge(target: &Target, bytes: &[u8], allocated: Option<Allocated>) -> Verdict {
    let count = || allocated.map_or(0, |allocated| allocated());
    let (before, started) = (count(), now());
    let result = catch_unwind(AssertUnwindSafe(|| (target.check)(bytes)));
    let (used, took) = (count().saturating_sub(before), started.elapsed());
    let most = target
        .factor
        .saturating_mul(bytes.len())
        .saturating_add(target.constant);
    match result {
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Verdict::Failed(format!("panic: {}", text.unwrap_or_default()))
        }
        Ok(Err(broken)) => Verdict::Failed(broken),
        Ok(Ok(_)) if used > most => Verdict::Failed(format!(
            "{used} bytes allocated for an input of {}; the limit is {} times that and {}",
            bytes.len(),
            target.factor,
            target.constant
        )),
        Ok(Ok(_)) if took > LONGEST => Verdict::Failed(format!("it took {took:?}")),
        Ok(Ok(true)) => Verdict::Accepted,
        Ok(Ok(false)) => Verdict::Refused,
    }
}

/// Judges the input of a seed; a valid encoding must be accepted.
pub fn seed(seed: u64, allocated: Option<Allocated>) -> (Input, Verdict) {
    let input = input(seed);
    let verdict = match judge(input.target, &input.bytes, allocated) {
        Verdict::Refused if input.kind == Kind::Valid => Verdict::Failed("a valid encoding was refused".into()),
        verdict => verdict,
    };
    (input, verdict)
}

#[allow(clippy::disallowed_methods, reason = "how long an input really took is the question")]
fn now() -> Instant {
    Instant::now()
}
