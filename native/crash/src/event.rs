//! What goes through the pipe: one line of text per event. A line that the kill cut off is no event.

use std::fmt;
use std::str::FromStr;

use crate::acks::Acks;

/// Number of a topic.
pub type Topic = usize;

/// One event of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The engine is open.
    Opened,
    /// Every topic was reported; the work begins.
    Ready,
    /// The engine was closed in order.
    Closed,
    /// The child saw what must not be.
    Wrong(String),
    /// Something is about to be asked for.
    Ask(Topic, Ask),
    /// Something was answered.
    Done(Topic, Done),
    /// Something was found after the open.
    Found(Topic, Found),
}

/// What is asked for; written before the call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the call")]
pub enum Ask {
    Create,
    Delete,
    Append {
        id: u64,
    },
    Trim {
        number: u64,
        before: u64,
    },
    Properties {
        number: u64,
        value: u64,
    },
    Acks {
        cursor: String,
        number: u64,
        acks: Option<Acks>,
    },
}

/// What was answered; written after it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the answer")]
pub enum Done {
    Create {
        ledger: u64,
    },
    Delete,
    Append {
        id: u64,
        offset: u64,
    },
    /// Certainly not appended.
    Refused {
        id: u64,
    },
    Trim {
        number: u64,
    },
    Properties {
        number: u64,
    },
    Acks {
        cursor: String,
        number: u64,
    },
}

/// What is there after an open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the description")]
pub enum Found {
    Absent,
    Life {
        ledger: u64,
        trim: u64,
        end: u64,
        properties: u64,
    },
    Entries {
        offset: u64,
        ids: Vec<u64>,
    },
    Cursor {
        name: String,
        acks: Acks,
    },
    /// The topic is reported wholly.
    Whole,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened => write!(f, "opened"),
            Event::Ready => write!(f, "ready"),
            Event::Closed => write!(f, "closed"),
            Event::Wrong(what) => write!(f, "wrong {}", what.replace('\n', " ")),
            Event::Ask(topic, ask) => match ask {
                Ask::Create => write!(f, "ask {topic} create"),
                Ask::Delete => write!(f, "ask {topic} delete"),
                Ask::Append { id } => write!(f, "ask {topic} append {id}"),
                Ask::Trim { number, before } => write!(f, "ask {topic} trim {number} {before}"),
                Ask::Properties { number, value } => write!(f, "ask {topic} properties {number} {value}"),
                Ask::Acks { cursor, number, acks } => {
                    let acks = acks.as_ref().map_or_else(|| "-".into(), Acks::to_string);
                    write!(f, "ask {topic} acks {cursor} {number} {acks}")
                }
            },
            Event::Done(topic, done) => match done {
                Done::Create { ledger } => write!(f, "done {topic} create {ledger}"),
                Done::Delete => write!(f, "done {topic} delete"),
                Done::Append { id, offset } => write!(f, "done {topic} append {id} {offset}"),
                Done::Refused { id } => write!(f, "done {topic} refused {id}"),
                Done::Trim { number } => write!(f, "done {topic} trim {number}"),
                Done::Properties { number } => write!(f, "done {topic} properties {number}"),
                Done::Acks { cursor, number } => write!(f, "done {topic} acks {cursor} {number}"),
            },
            Event::Found(topic, found) => match found {
                Found::Absent => write!(f, "found {topic} absent"),
                Found::Life {
                    ledger,
                    trim,
                    end,
                    properties,
                } => write!(f, "found {topic} life {ledger} {trim} {end} {properties}"),
                Found::Entries { offset, ids } => {
                    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
                    write!(f, "found {topic} entries {offset} {}", ids.join(","))
                }
                Found::Cursor { name, acks } => write!(f, "found {topic} cursor {name} {acks}"),
                Found::Whole => write!(f, "found {topic} whole"),
            },
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Event, String> {
        read(line).ok_or_else(|| format!("no event: {line:?}"))
    }
}

fn read(line: &str) -> Option<Event> {
    if let Some(what) = line.strip_prefix("wrong ") {
        return Some(Event::Wrong(what.into()));
    }
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let text = |at: usize| words.get(at).map(|word| (*word).to_owned());
    let topic = || words.get(1)?.parse::<Topic>().ok();
    let kind = words.get(2).copied().unwrap_or_default();
    Some(match (*words.first()?, kind) {
        ("opened", "") => Event::Opened,
        ("ready", "") => Event::Ready,
        ("closed", "") => Event::Closed,
        ("ask", kind) => Event::Ask(
            topic()?,
            match kind {
                "create" => Ask::Create,
                "delete" => Ask::Delete,
                "append" => Ask::Append { id: number(3)? },
                "trim" => Ask::Trim {
                    number: number(3)?,
                    before: number(4)?,
                },
                "properties" => Ask::Properties {
                    number: number(3)?,
                    value: number(4)?,
                },
                "acks" => Ask::Acks {
                    cursor: text(3)?,
                    number: number(4)?,
                    acks: match *words.get(5)? {
                        "-" => None,
                        acks => Some(acks.parse().ok()?),
                    },
                },
                _ => return None,
            },
        ),
        ("done", kind) => Event::Done(
            topic()?,
            match kind {
                "create" => Done::Create { ledger: number(3)? },
                "delete" => Done::Delete,
                "append" => Done::Append {
                    id: number(3)?,
                    offset: number(4)?,
                },
                "refused" => Done::Refused { id: number(3)? },
                "trim" => Done::Trim { number: number(3)? },
                "properties" => Done::Properties { number: number(3)? },
                "acks" => Done::Acks {
                    cursor: text(3)?,
                    number: number(4)?,
                },
                _ => return None,
            },
        ),
        ("found", kind) => Event::Found(
            topic()?,
            match kind {
                "absent" => Found::Absent,
                "life" => Found::Life {
                    ledger: number(3)?,
                    trim: number(4)?,
                    end: number(5)?,
                    properties: number(6)?,
                },
                "entries" => Found::Entries {
                    offset: number(3)?,
                    ids: words
                        .get(4)?
                        .split(',')
                        .map(|id| id.parse().ok())
                        .collect::<Option<_>>()?,
                },
                "cursor" => Found::Cursor {
                    name: text(3)?,
                    acks: words.get(4)?.parse().ok()?,
                },
                "whole" => Found::Whole,
                _ => return None,
            },
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_read_back_from_its_line() {
        let acks: Acks = "4;6,9;7:3".parse().unwrap();
        let cursor = || "c1".to_owned();
        let events = [
            Event::Opened,
            Event::Ready,
            Event::Closed,
            Event::Wrong("a b".into()),
            Event::Ask(1, Ask::Create),
            Event::Ask(1, Ask::Delete),
            Event::Ask(1, Ask::Append { id: 7 }),
            Event::Ask(1, Ask::Trim { number: 2, before: 9 }),
            Event::Ask(1, Ask::Properties { number: 2, value: 9 }),
            Event::Ask(
                1,
                Ask::Acks {
                    cursor: cursor(),
                    number: 3,
                    acks: None,
                },
            ),
            Event::Ask(
                1,
                Ask::Acks {
                    cursor: cursor(),
                    number: 3,
                    acks: Some(acks.clone()),
                },
            ),
            Event::Done(0, Done::Create { ledger: 5 }),
            Event::Done(0, Done::Delete),
            Event::Done(0, Done::Append { id: 7, offset: 8 }),
            Event::Done(0, Done::Refused { id: 7 }),
            Event::Done(0, Done::Trim { number: 4 }),
            Event::Done(0, Done::Properties { number: 4 }),
            Event::Done(
                0,
                Done::Acks {
                    cursor: cursor(),
                    number: 3,
                },
            ),
            Event::Found(2, Found::Absent),
            Event::Found(
                2,
                Found::Life {
                    ledger: 1,
                    trim: 2,
                    end: 3,
                    properties: 4,
                },
            ),
            Event::Found(
                2,
                Found::Entries {
                    offset: 2,
                    ids: vec![5, 6],
                },
            ),
            Event::Found(2, Found::Cursor { name: cursor(), acks }),
            Event::Found(2, Found::Whole),
        ];
        for event in events {
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        for line in [
            "",
            "done",
            "done 1 append 7",
            "found x whole",
            "ask 1 acks c 3 4;",
            "opened now x",
        ] {
            assert!(line.parse::<Event>().is_err(), "{line}");
        }
    }
}
