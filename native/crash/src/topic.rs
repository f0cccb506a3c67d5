//! One topic as its pipe lines allow it to be: what must be there after a kill, what may be.
//!
//! Promises: entries reported as acknowledged must be at their offsets; those in doubt may be there only as a dense tail in the
//! order of the calls; those refused may not. Trim offset, properties and cursors must be as the last answer says, or as something
//! asked for since. A deletion in doubt has happened or not, wholly. What one report found is what the next must find: doubt is
//! settled once.

use std::collections::{BTreeMap, BTreeSet};

use crate::acks::Acks;
use crate::event::{Ask, Done, Found};
use crate::register::Register;
use crate::verdict::Verdict;

/// Offsets of one virtual ledger.
const SPAN_BITS: u32 = 16;

/// A topic over all its lives.
#[derive(Debug, Default)]
pub struct Topic {
    life: Option<Life>,
    /// Every ledger id up to this one was used by an earlier life.
    used_ledgers: u64,
    /// Ids of earlier lives, and those refused: they may not be there.
    gone: BTreeSet<u64>,
    report: Option<Report>,
}

/// One life of a topic.
#[derive(Debug)]
struct Life {
    /// First virtual ledger; `None` while the creation is in doubt.
    ledger: Option<u64>,
    deleting: bool,
    /// Offset of the first of `ids`.
    base: u64,
    /// Entries in call order, those in doubt last.
    ids: Vec<u64>,
    acknowledged: BTreeMap<u64, u64>,
    trim: Register<u64>,
    properties: Register<u64>,
    cursors: BTreeMap<String, Register<Option<Acks>>>,
}

/// What a child found of a topic, line by line.
#[derive(Debug, Default)]
struct Report {
    life: Option<(u64, u64, u64, u64)>,
    ids: Vec<u64>,
    gap: bool,
    cursors: BTreeMap<String, Acks>,
}

impl Life {
    fn new(ledger: Option<u64>) -> Life {
        Life {
            ledger,
            deleting: false,
            base: 0,
            ids: Vec::new(),
            acknowledged: BTreeMap::new(),
            trim: Register::new(0),
            properties: Register::new(0),
            cursors: BTreeMap::new(),
        }
    }

    fn last_ledger(&self) -> u64 {
        let end = self.base.saturating_add(self.ids.len() as u64);
        self.ledger.unwrap_or(0).saturating_add(end >> SPAN_BITS)
    }
}

impl Topic {
    /// Something is asked for.
    pub fn ask(&mut self, ask: Ask, verdict: &mut Verdict) {
        let in_order = match (ask, &mut self.life) {
            (Ask::Create, life @ None) => {
                *life = Some(Life::new(None));
                true
            }
            (Ask::Delete, Some(life)) => {
                life.deleting = true;
                true
            }
            (Ask::Append { id }, Some(life)) => {
                life.ids.push(id);
                true
            }
            (Ask::Trim { number, before }, Some(life)) => life.trim.ask(number, before),
            (Ask::Properties { number, value }, Some(life)) => life.properties.ask(number, value),
            (Ask::Acks { cursor, number, acks }, Some(life)) => {
                let register = life.cursors.entry(cursor).or_insert_with(|| Register::new(None));
                register.ask(number, acks)
            }
            _ => false,
        };
        if !in_order {
            verdict.note("a child asked for something out of its own order: a defect of the test");
        }
    }

    /// Something was answered.
    pub fn done(&mut self, done: Done, verdict: &mut Verdict) {
        let in_order = match (done, &mut self.life) {
            (Done::Create { ledger }, Some(life)) => {
                if ledger <= self.used_ledgers {
                    let used = self.used_ledgers;
                    verdict.note(format!(
                        "a topic was created with ledger {ledger}; up to {used} are used"
                    ));
                }
                life.ledger = Some(ledger);
                true
            }
            (Done::Delete, Some(_)) => {
                self.end();
                true
            }
            (Done::Append { id, offset }, Some(life)) => {
                verdict.acknowledged = verdict.acknowledged.saturating_add(1);
                life.acknowledged.insert(id, offset);
                true
            }
            (Done::Refused { id }, Some(life)) => {
                let at = life.ids.iter().rposition(|asked| *asked == id);
                self.gone.insert(id);
                at.map(|at| life.ids.remove(at)).is_some()
            }
            (Done::Trim { number }, Some(life)) => life.trim.answer(number),
            (Done::Properties { number }, Some(life)) => life.properties.answer(number),
            (Done::Acks { cursor, number }, Some(life)) => life
                .cursors
                .get_mut(&cursor)
                .is_some_and(|register| register.answer(number)),
            // Of a life that has ended meanwhile.
            (_, None) => true,
        };
        if !in_order {
            verdict.note("something was answered that nobody asked for");
        }
    }

    /// A line of a report; the last one gives the verdict.
    pub fn found(&mut self, found: Found, verdict: &mut Verdict) {
        let report = self.report.get_or_insert_with(Report::default);
        match found {
            Found::Absent => {}
            Found::Life {
                ledger,
                trim,
                end,
                properties,
            } => report.life = Some((ledger, trim, end, properties)),
            Found::Entries { offset, ids } => {
                let next = report
                    .life
                    .map_or(0, |(_, trim, ..)| trim)
                    .saturating_add(report.ids.len() as u64);
                report.gap |= offset != next;
                report.ids.extend(ids);
            }
            Found::Cursor { name, acks } => drop(report.cursors.insert(name, acks)),
            Found::Whole => {
                let report = std::mem::take(report);
                self.report = None;
                self.settle(report, verdict);
            }
        }
    }

    /// The child that was reporting is dead.
    pub fn killed(&mut self) {
        self.report = None;
    }

    fn end(&mut self) {
        if let Some(life) = self.life.take() {
            self.used_ledgers = self.used_ledgers.max(life.last_ledger());
            self.gone.extend(life.ids);
        }
    }

    fn settle(&mut self, report: Report, verdict: &mut Verdict) {
        let Some((ledger, trim, end, properties)) = report.life else {
            return self.settle_absence(verdict);
        };
        let Some(mut life) = self.life.take() else {
            verdict.duplicated = verdict.duplicated.saturating_add(report.ids.len() as u64);
            return verdict.note(format!(
                "a topic is there (ledger {ledger}) that was deleted or never created"
            ));
        };
        match life.ledger {
            Some(known) if known != ledger => {
                verdict.note(format!("a topic with ledger {known} has ledger {ledger} now"));
            }
            None if ledger <= self.used_ledgers => {
                let used = self.used_ledgers;
                verdict.note(format!(
                    "a topic was created with ledger {ledger}; up to {used} are used"
                ));
            }
            _ => {}
        }
        if report.gap || trim.saturating_add(report.ids.len() as u64) != end {
            verdict.note(format!(
                "{} entries were read from {trim} on, the end is {end}",
                report.ids.len()
            ));
        }
        self.entries(&life, trim, &report.ids, verdict);
        if !life.trim.possible().contains(&trim) {
            verdict.note(format!(
                "the trim offset is {trim}, possible: {:?}",
                life.trim.possible()
            ));
        }
        if !life.properties.possible().contains(&properties) {
            let possible = life.properties.possible();
            verdict.note(format!("the properties are {properties}, possible: {possible:?}"));
        }
        for (name, register) in &life.cursors {
            cursor(name, register, report.cursors.get(name), verdict);
        }
        for name in report.cursors.keys().filter(|name| !life.cursors.contains_key(*name)) {
            verdict.note(format!("cursor {name} is there that nobody created"));
        }
        life = Life {
            base: trim,
            acknowledged: report.ids.iter().copied().zip(trim..).collect(),
            ids: report.ids,
            trim: Register::new(trim),
            properties: Register::new(properties),
            cursors: report
                .cursors
                .into_iter()
                .map(|(name, acks)| (name, Register::new(Some(acks))))
                .collect(),
            ..Life::new(Some(ledger))
        };
        self.life = Some(life);
    }

    fn settle_absence(&mut self, verdict: &mut Verdict) {
        if let Some(life) = self
            .life
            .as_ref()
            .filter(|life| life.ledger.is_some() && !life.deleting)
        {
            verdict.lost = verdict.lost.saturating_add(life.acknowledged.len() as u64);
            verdict.note(format!(
                "a topic with ledger {:?} and {} acknowledged entries is gone",
                life.ledger,
                life.acknowledged.len()
            ));
        }
        self.end();
    }

    fn entries(&self, life: &Life, trim: u64, found: &[u64], verdict: &mut Verdict) {
        let places: BTreeMap<u64, u64> = found.iter().copied().zip(trim..).collect();
        let before = verdict.clone();
        let twice = (found.len() as u64).saturating_sub(places.len() as u64);
        verdict.duplicated = verdict.duplicated.saturating_add(twice);
        for (id, offset) in life.acknowledged.iter().filter(|(_, offset)| **offset >= trim) {
            match places.get(id) {
                Some(place) if place == offset => {}
                Some(place) => {
                    verdict.reordered = verdict.reordered.saturating_add(1);
                    verdict.note(format!("entry {id} was acknowledged at {offset}, it is at {place}"));
                }
                None => {
                    verdict.lost = verdict.lost.saturating_add(1);
                    verdict.note(format!("entry {id} was acknowledged at {offset}, it is not there"));
                }
            }
        }
        for id in found.iter().filter(|id| self.gone.contains(id)) {
            verdict.duplicated = verdict.duplicated.saturating_add(1);
            verdict.note(format!(
                "entry {id} is there, it was refused or belongs to a deleted life"
            ));
        }
        let skipped = usize::try_from(trim.saturating_sub(life.base)).unwrap_or(usize::MAX);
        let wanted = life.ids.get(skipped..).unwrap_or_default();
        let same = found
            .iter()
            .zip(wanted)
            .take_while(|(found, wanted)| found == wanted)
            .count();
        if same < found.len() && *verdict == before {
            verdict.reordered = verdict.reordered.saturating_add(1);
            verdict.note(format!(
                "at offset {} is entry {:?}, asked for was {:?}",
                trim.saturating_add(same as u64),
                found.get(same),
                wanted.get(same)
            ));
        }
    }
}

fn cursor(name: &str, register: &Register<Option<Acks>>, found: Option<&Acks>, verdict: &mut Verdict) {
    if register.possible().iter().any(|possible| possible.as_ref() == found) {
        return;
    }
    let nothing = Acks::default();
    if let Some(Some(certain)) = register.certain() {
        let missing = certain.missing_in(found.unwrap_or(&nothing));
        verdict.acked_again = verdict.acked_again.saturating_add(missing);
    }
    let show = |acks: Option<&Acks>| acks.map_or_else(|| "absent".to_owned(), Acks::to_string);
    let possible: Vec<String> = register.possible().iter().map(|acks| show(acks.as_ref())).collect();
    verdict.note(format!(
        "cursor {name} is {}, possible: {}",
        show(found),
        possible.join(" or ")
    ));
}

#[cfg(test)]
mod tests;
