//! One cursor: every state that may be durable.

use std::collections::BTreeMap;

use nereus_core::cursor::{AckPage, CursorState, CursorUpdate};
use nereus_core::ErrorCode;
use roaring::RoaringBitmap;

use crate::law::{broken, Check, Law};

/// What was asked of a cursor.
#[derive(Debug, Clone)]
pub enum Wish {
    /// A persist.
    Update(CursorUpdate),
    /// A deletion.
    Delete,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was done.
    Done,
    /// It was refused by what was found: absence, or presence.
    Refused(ErrorCode),
    /// It certainly did not happen.
    Nothing,
    /// Nobody knows.
    InDoubt,
}

/// What may be durable of one cursor; `None` = it does not exist.
pub struct CursorModel {
    possible: Vec<Option<CursorState>>,
    /// Asked for and not judged, in call order, with the answer if it has come: it is judged after those before it.
    open: Vec<(u64, Wish, Option<Ended>)>,
}

impl Default for CursorModel {
    fn default() -> Self {
        CursorModel {
            possible: vec![None],
            open: Vec::new(),
        }
    }
}

impl CursorModel {
    /// Whether the cursor exists, if that is certain.
    pub fn exists(&self) -> Option<bool> {
        let certain = self.open.is_empty();
        match (
            self.possible.iter().all(Option::is_some),
            self.possible.iter().all(Option::is_none),
        ) {
            (true, _) if certain => Some(true),
            (_, true) if certain => Some(false),
            _ => None,
        }
    }

    /// Requests under way.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Asks.
    pub fn asked(&mut self, op: u64, wish: Wish) {
        self.open.push((op, wish, None));
    }

    /// Request `op` ended. Answers may be heard in another order than they were given; they are judged in call order.
    pub fn ended(&mut self, op: u64, how: Ended) -> Check {
        match self.open.iter_mut().find(|(open, _, _)| *open == op) {
            Some((_, _, ended @ None)) => *ended = Some(how),
            _ => return broken(Law::L6, format!("request {op} was answered twice")),
        }
        while let Some((_, wish, Some(how))) = self.open.first().cloned() {
            self.open.remove(0);
            self.judge(&wish, how)?;
        }
        Ok(())
    }

    /// The process ended: whatever was under way may have happened.
    pub fn died(&mut self) -> Check {
        for (_, wish, ended) in std::mem::take(&mut self.open) {
            self.judge(&wish, ended.unwrap_or(Ended::InDoubt))?;
        }
        Ok(())
    }

    fn judge(&mut self, wish: &Wish, how: Ended) -> Check {
        match how {
            Ended::Done => {
                let after: Vec<_> = self
                    .possible
                    .iter()
                    .filter_map(|state| apply(wish, state).ok())
                    .collect();
                if after.is_empty() {
                    return broken(
                        Law::L15,
                        format!(
                            "{wish:?} was answered as done, which no possible state allows: {:?}",
                            self.possible
                        ),
                    );
                }
                self.possible = after;
            }
            Ended::Refused(code) => {
                let fitting = |state: &Option<CursorState>| apply(wish, state).err() == Some(code);
                if !self.possible.iter().any(fitting) {
                    return broken(
                        Law::L15,
                        format!(
                            "{wish:?} was refused as {code:?}, which no possible state explains: {:?}",
                            self.possible
                        ),
                    );
                }
                self.possible.retain(fitting);
            }
            Ended::Nothing => {}
            Ended::InDoubt => {
                let after: Vec<_> = self
                    .possible
                    .iter()
                    .filter_map(|state| apply(wish, state).ok())
                    .collect();
                self.possible.extend(after);
            }
        }
        self.unite();
        Ok(())
    }

    /// A copy of an old creation has arrived after all.
    pub fn appeared(&mut self, found: &CursorState) {
        self.possible = vec![Some(found.clone())];
    }

    /// The cursor was read with nothing under way; `None` = there is none.
    pub fn observe(&mut self, name: &str, found: Option<&CursorState>) -> Check {
        let fits = |state: &Option<CursorState>| match (state, found) {
            (None, None) => true,
            (Some(state), Some(found)) => same(state, found),
            _ => false,
        };
        if !self.possible.iter().any(fits) {
            return broken(
                Law::L15,
                format!("cursor {name} is {found:?}, possible were {:?}", self.possible),
            );
        }
        self.possible.retain(fits);
        Ok(())
    }

    fn unite(&mut self) {
        let mut seen: Vec<Option<CursorState>> = Vec::new();
        for state in self.possible.drain(..) {
            if !seen.contains(&state) {
                seen.push(state);
            }
        }
        self.possible = seen;
    }
}

/// The state after a wish; an error where it is refused.
pub fn apply(wish: &Wish, state: &Option<CursorState>) -> Result<Option<CursorState>, ErrorCode> {
    let update = match (wish, state) {
        (Wish::Delete, None) => return Err(ErrorCode::NotFound),
        (Wish::Delete, Some(_)) => return Ok(None),
        (Wish::Update(update), _) => update,
    };
    let before = match (state, update.create) {
        (None, false) => return Err(ErrorCode::NotFound),
        (Some(_), true) => return Err(ErrorCode::AlreadyExists),
        (Some(before), false) => before.clone(),
        (None, true) => CursorState {
            name: update.name.clone(),
            mark_delete_end: update.mark_delete_end,
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            pages: Vec::new(),
        },
    };
    let first_live = update.mark_delete_end.get() >> 16;
    let mut pages: BTreeMap<u64, AckPage> = match update.full {
        true => BTreeMap::new(),
        false => before.pages.into_iter().map(|page| (page.page_no, page)).collect(),
    };
    for page in &update.pages {
        match page.is_empty() {
            true => drop(pages.remove(&page.page_no)),
            false => drop(pages.insert(page.page_no, page.clone())),
        }
    }
    pages.retain(|number, _| *number >= first_live);
    Ok(Some(CursorState {
        name: before.name,
        mark_delete_end: update.mark_delete_end,
        position_properties: update.position_properties.clone().unwrap_or(before.position_properties),
        cursor_properties: update.cursor_properties.clone().unwrap_or(before.cursor_properties),
        pages: pages.into_values().collect(),
    }))
}

/// Equal, whatever form the bitmaps were stored in.
fn same(a: &CursorState, b: &CursorState) -> bool {
    let plain = |state: &CursorState| CursorState {
        pages: Vec::new(),
        ..state.clone()
    };
    let pages = a.pages.len() == b.pages.len()
        && a.pages.iter().zip(&b.pages).all(|(a, b)| {
            a.page_no == b.page_no && a.batches == b.batches && (a.acked == b.acked || bits(a) == bits(b))
        });
    plain(a) == plain(b) && pages
}

fn bits(page: &AckPage) -> Option<RoaringBitmap> {
    match page.acked.is_empty() {
        true => Some(RoaringBitmap::new()),
        false => RoaringBitmap::deserialize_from(&page.acked[..]).ok(),
    }
}

#[cfg(test)]
mod tests {
    use nereus_core::types::Offset;

    use super::*;

    fn update(create: bool, mark: u64) -> Wish {
        Wish::Update(CursorUpdate {
            name: "c".into(),
            create,
            full: false,
            mark_delete_end: Offset::new(mark),
            position_properties: None,
            cursor_properties: None,
            pages: Vec::new(),
        })
    }

    fn state(mark: u64) -> CursorState {
        CursorState {
            name: "c".into(),
            mark_delete_end: Offset::new(mark),
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            pages: Vec::new(),
        }
    }

    #[test]
    fn l15_what_was_acknowledged_must_be_there_and_what_is_in_doubt_may_be() {
        let mut cursor = CursorModel::default();
        cursor.asked(1, update(true, 3));
        cursor.ended(1, Ended::Done).unwrap();
        assert_eq!(cursor.observe("c", None).unwrap_err().law, Law::L15);
        cursor.observe("c", Some(&state(3))).unwrap();
        cursor.asked(2, update(false, 5));
        cursor.died().unwrap();
        assert!(cursor.observe("c", Some(&state(4))).is_err());
        cursor.observe("c", Some(&state(5))).unwrap();
        assert!(
            cursor.observe("c", Some(&state(3))).is_err(),
            "decided by the look before"
        );
        cursor.asked(3, Wish::Delete);
        assert_eq!(
            cursor.ended(3, Ended::Refused(ErrorCode::NotFound)).unwrap_err().law,
            Law::L15
        );
    }
}
