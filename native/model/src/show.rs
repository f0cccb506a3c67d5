//! Steps and states in words, for the trace of a counter-example.

use std::fmt::{self, Display, Formatter};

use crate::state::{Commit, Outcome, Phase, Refusing, State};
use crate::step::{Answer, Step};

/// The name of an owner: A, B, C.
fn name(owner: u8) -> char {
    char::from(b'A' + owner)
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Open(o) => write!(f, "{} reads the head and wants the stream", name(o)),
            Step::Issue(o) => write!(f, "{} is given an append", name(o)),
            Step::Draft(o) => write!(f, "{} makes an attempt of its queue", name(o)),
            Step::Slice(o, Answer::Heard) => write!(f, "{}: slice and intent are durable", name(o)),
            Step::Slice(o, _) => write!(f, "{}: the WAL refuses the slice", name(o)),
            Step::Page(o, answer) => write!(f, "{}: commit page {answer}", name(o)),
            Step::Head(o, answer) => write!(f, "{}: head update {answer}", name(o)),
            Step::Arrive(_) => write!(f, "a write that was given up arrives"),
            Step::Resume(o) => write!(f, "{} takes appends again", name(o)),
            Step::Reload(o) => write!(f, "{} reads the head again", name(o)),
            Step::Crash(o) => write!(f, "{} dies", name(o)),
        }
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Heard => "judged and answered",
            Answer::Lost => "judged, the answer is lost",
            Answer::Late => "not answered, still on its way",
            Answer::Refused => "refused",
            Answer::Unread => "in conflict, the pages cannot be read",
        })
    }
}

impl Display for Commit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let owner = name(self.owner);
        write!(f, "{}:", self.start)?;
        (self.first..self.first + self.count).try_for_each(|append| write!(f, "{owner}{append}"))
    }
}

/// The stored records and what each owner knows and answered, in one line.
pub fn line(s: &State) -> String {
    let list = |commits: &[Commit]| commits.iter().map(|c| format!(" {c}")).collect::<String>();
    let mut text = format!(
        "head v{} epoch {} end {} ring [{}]",
        s.head.version,
        s.head.epoch,
        s.head.end,
        list(s.head.ring()).trim()
    );
    if !s.pages.is_empty() {
        text += &format!(" pages [{}]", list(&s.pages).trim());
    }
    if !s.late.is_empty() {
        text += &format!(" late {}", s.late.len());
    }
    for (owner, o) in s.owners.iter().zip(0u8..) {
        let phase = match (owner.phase, owner.refusing) {
            (Phase::Idle, _) => continue,
            (Phase::Opening, _) => "opening".to_owned(),
            (Phase::Down, _) => "dead".to_owned(),
            (Phase::Open, Refusing::ForGood) => format!("fenced at epoch {}", owner.epoch),
            (Phase::Open, _) => format!("epoch {} serves {}", owner.epoch, owner.published),
        };
        let doubt = if owner.attempt.is_some_and(|a| a.in_doubt) {
            ", in doubt"
        } else {
            ""
        };
        text += &format!("; {} {phase}{doubt}", name(o));
        for (outcome, append) in owner.outcomes.iter().zip(0u8..).take(usize::from(owner.issued)) {
            let name = name(o);
            text += &match outcome {
                Outcome::Pending => format!(" {name}{append}?"),
                Outcome::Committed(offset) => format!(" {name}{append}=Committed({offset})"),
                Outcome::NotCommitted => format!(" {name}{append}=NotCommitted"),
                Outcome::Unknown => format!(" {name}{append}=unanswered"),
            };
        }
    }
    text
}
