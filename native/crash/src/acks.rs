//! The acknowledgements of one cursor, as the child holds them and as they are read back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use nereus_core::cursor::{AckPage, CursorState};
use roaring::RoaringBitmap;

/// Low bits of an offset that a page covers.
const PAGE_BITS: u32 = 16;

/// What is acknowledged. Nothing below `mark` is listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acks {
    /// All offsets below are acknowledged.
    pub mark: u64,
    /// Acknowledged offsets from `mark` on.
    pub acked: BTreeSet<u64>,
    /// Partly acknowledged batches: a set bit is still to be acknowledged.
    pub batches: BTreeMap<u64, u64>,
}

impl Acks {
    /// The durable state of a cursor. An error says what makes no sense.
    pub fn read(state: &CursorState) -> Result<Acks, String> {
        let mut acks = Acks::default();
        for page in &state.pages {
            let base = page.page_no << PAGE_BITS;
            if !page.acked.is_empty() {
                let bitmap = RoaringBitmap::deserialize_from(&page.acked[..]).map_err(|e| e.to_string())?;
                acks.acked.extend(bitmap.iter().map(|low| base | u64::from(low)));
            }
            for (low, words) in &page.batches {
                let [word] = words[..] else {
                    return Err(format!("a batch of {} words", words.len()));
                };
                acks.batches.insert(base | u64::from(*low), word.cast_unsigned());
            }
        }
        acks.move_mark(state.mark_delete_end.get());
        Ok(acks)
    }

    /// Moves the mark forward, over acknowledged offsets at it too.
    pub fn move_mark(&mut self, to: u64) {
        self.mark = self.mark.max(to);
        self.acked = self.acked.split_off(&self.mark);
        self.batches = self.batches.split_off(&self.mark);
    }

    /// Acknowledges one offset.
    pub fn ack(&mut self, offset: u64) {
        if offset >= self.mark {
            self.acked.insert(offset);
            self.batches.remove(&offset);
        }
    }

    /// Acknowledges the messages of `bits` in a batch of `of` messages, or what is left of it.
    pub fn ack_in_batch(&mut self, offset: u64, of: u32, bits: u64) {
        if offset < self.mark || self.acked.contains(&offset) {
            return;
        }
        let whole = u64::MAX.checked_shr(64u32.saturating_sub(of)).unwrap_or(0);
        let left = self.batches.get(&offset).copied().unwrap_or(whole) & !bits;
        match left {
            0 => self.ack(offset),
            left => drop(self.batches.insert(offset, left)),
        }
    }

    /// Numbers of the pages that hold something.
    pub fn pages(&self) -> BTreeSet<u64> {
        let offsets = self.acked.iter().chain(self.batches.keys());
        offsets.map(|offset| page_of(*offset)).collect()
    }

    /// One page, complete.
    pub fn page(&self, page_no: u64) -> AckPage {
        let base = page_no << PAGE_BITS;
        let range = base..base.saturating_add(1 << PAGE_BITS);
        let low = |offset: &u64| u16::try_from(offset & 0xffff).unwrap_or(0);
        let bitmap: RoaringBitmap = self
            .acked
            .range(range.clone())
            .map(|offset| u32::from(low(offset)))
            .collect();
        let mut acked = Vec::new();
        if !bitmap.is_empty() {
            // Writing into memory cannot fail.
            let _ = bitmap.serialize_into(&mut acked);
        }
        let batches = self.batches.range(range);
        AckPage {
            page_no,
            acked: acked.into(),
            batches: batches
                .map(|(offset, left)| (low(offset), vec![left.cast_signed()]))
                .collect(),
        }
    }

    /// Messages that are acknowledged here and not in `later`.
    pub fn missing_in(&self, later: &Acks) -> u64 {
        let below = self.mark.saturating_sub(later.mark);
        let covered = later.acked.range(later.mark..self.mark.max(later.mark)).count() as u64;
        let unknown = |offset: &&u64| **offset >= later.mark && !later.acked.contains(offset);
        let single = self.acked.iter().filter(unknown).count() as u64;
        let partly = self
            .batches
            .iter()
            .filter(|(offset, _)| **offset >= later.mark && !later.acked.contains(offset));
        // A batch without a trace has all its messages again; how many it has does not matter.
        let bits = partly.map(|(offset, left)| match later.batches.get(offset) {
            Some(after) => u64::from((after & !left).count_ones()),
            None => 1,
        });
        below
            .saturating_sub(covered)
            .saturating_add(single)
            .saturating_add(bits.sum())
    }
}

/// The page that holds an offset.
pub fn page_of(offset: u64) -> u64 {
    offset >> PAGE_BITS
}

impl fmt::Display for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let acked: Vec<String> = self.acked.iter().map(u64::to_string).collect();
        let batches: Vec<String> = self
            .batches
            .iter()
            .map(|(offset, left)| format!("{offset}:{left:x}"))
            .collect();
        write!(f, "{};{};{}", self.mark, acked.join(","), batches.join(","))
    }
}

impl FromStr for Acks {
    type Err = String;

    fn from_str(text: &str) -> Result<Acks, String> {
        let wrong = || format!("acknowledgements {text:?} make no sense");
        let mut parts = text.split(';');
        let (Some(mark), Some(acked), Some(batches), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let items = |list: &'_ str| {
            list.split(',')
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let acked = items(acked)
            .iter()
            .map(|item| item.parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?;
        let batch = |item: &String| {
            let (offset, left) = item.split_once(':').ok_or_else(wrong)?;
            let left = u64::from_str_radix(left, 16).map_err(|_| wrong())?;
            Ok((offset.parse().map_err(|_| wrong())?, left))
        };
        Ok(Acks {
            mark: mark.parse().map_err(|_| wrong())?,
            acked,
            batches: items(batches).iter().map(batch).collect::<Result<_, String>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use nereus_core::types::Offset;

    use super::*;

    fn sample() -> Acks {
        let mut acks = Acks {
            mark: 10,
            ..Acks::default()
        };
        [5, 12, 13, 70_000].into_iter().for_each(|offset| acks.ack(offset));
        acks.ack_in_batch(20, 10, 0b11);
        acks.ack_in_batch(21, 2, 0b11);
        acks
    }

    #[test]
    fn acknowledgements_are_the_same_after_text_and_after_pages() {
        let acks = sample();
        assert_eq!(acks.to_string(), "10;12,13,21,70000;20:3fc");
        assert_eq!(acks.to_string().parse(), Ok(acks.clone()));
        assert_eq!("3;;".parse::<Acks>().unwrap().mark, 3);
        assert!("3;x;".parse::<Acks>().is_err() && "3".parse::<Acks>().is_err());
        let state = CursorState {
            name: "c".into(),
            mark_delete_end: Offset::new(10),
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            pages: acks.pages().into_iter().map(|page| acks.page(page)).collect(),
        };
        assert_eq!(state.pages.len(), 2);
        assert_eq!(Acks::read(&state), Ok(acks));
    }

    #[test]
    fn every_message_that_is_to_be_acknowledged_again_is_counted() {
        let acks = sample();
        assert_eq!(acks.missing_in(&acks), 0);
        let mut later = acks.clone();
        later.acked.remove(&13);
        later.batches.insert(20, 0x3ff);
        assert_eq!(acks.missing_in(&later), 3);
        later.move_mark(22);
        assert_eq!(acks.missing_in(&later), 0);
        later = acks.clone();
        later.mark = 7;
        later.acked.insert(8);
        assert_eq!(acks.missing_in(&later), 2);
        later.batches.clear();
        assert_eq!(acks.missing_in(&later), 3);
    }
}
