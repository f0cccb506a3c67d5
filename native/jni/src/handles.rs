//! Handles: ids that Java holds for native objects.
//!
//! Owns: the table from id to `Arc`. Promises: an id is never answered by another object than the one it was given for, whatever Java
//! does with it: slots are reused, ids are not. Work in flight keeps its own `Arc`.

use std::sync::Arc;

use parking_lot::RwLock;

/// Slots are numbered from 1 in the low 32 bits; the generation above them stays below 2^31 so that every id is positive.
const MAX_GENERATION: u32 = (1 << 31) - 1;

/// A generation-checked table.
pub struct Handles<T> {
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    all: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Handles {
            slots: RwLock::new(Slots {
                all: Vec::new(),
                free: Vec::new(),
            }),
        }
    }

    /// Gives out a new id for `value`; `None` when 2^32 slots are in use.
    pub fn insert(&self, value: Arc<T>) -> Option<i64> {
        let mut slots = self.slots.write();
        let index = match slots.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(slots.all.len()).ok().filter(|index| *index < u32::MAX)?;
                slots.all.push(Slot {
                    generation: 0,
                    value: None,
                });
                index
            }
        };
        let slot = slots.all.get_mut(index as usize)?;
        slot.value = Some(value);
        Some(id(slot.generation, index))
    }

    /// The object of a live id.
    pub fn get(&self, id: i64) -> Option<Arc<T>> {
        let (generation, index) = parts(id)?;
        let slots = self.slots.read();
        let slot = slots
            .all
            .get(index as usize)
            .filter(|slot| slot.generation == generation)?;
        slot.value.clone()
    }

    /// Ends a live id and returns its object; every later use of the id finds nothing.
    pub fn remove(&self, id: i64) -> Option<Arc<T>> {
        let (generation, index) = parts(id)?;
        let mut slots = self.slots.write();
        let slot = slots
            .all
            .get_mut(index as usize)
            .filter(|slot| slot.generation == generation)?;
        let value = slot.value.take()?;
        // A slot whose generations are used up is left unused for ever: no id is ever given out twice.
        if slot.generation < MAX_GENERATION {
            slot.generation += 1;
            slots.free.push(index);
        }
        Some(value)
    }
}

fn id(generation: u32, index: u32) -> i64 {
    (i64::from(generation) << 32) | (i64::from(index) + 1)
}

fn parts(id: i64) -> Option<(u32, u32)> {
    let generation = u32::try_from(id >> 32).ok()?;
    let index = u32::try_from(id & 0xFFFF_FFFF).ok()?.checked_sub(1)?;
    Some((generation, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_never_reaches_the_next_tenant_of_its_slot() {
        let table = Handles::new();
        let first = table.insert(Arc::new("first")).unwrap();
        assert_eq!(table.get(first).as_deref(), Some(&"first"));
        assert_eq!(table.remove(first).as_deref(), Some(&"first"));
        let second = table.insert(Arc::new("second")).unwrap();
        assert_eq!(first & 0xFFFF_FFFF, second & 0xFFFF_FFFF, "the slot is reused");
        assert_ne!(first, second);
        assert!(table.get(first).is_none());
        assert!(table.remove(first).is_none());
        assert_eq!(table.get(second).as_deref(), Some(&"second"));
    }

    #[test]
    fn made_up_ids_find_nothing() {
        let table = Handles::new();
        let live = table.insert(Arc::new(())).unwrap();
        for id in [0, -1, i64::MIN, i64::MAX, live + 1, live | (1 << 40)] {
            assert!(table.get(id).is_none(), "id {id}");
            assert!(table.remove(id).is_none(), "id {id}");
        }
        assert!(live > 0);
    }

    #[test]
    fn a_slot_without_generations_left_is_retired() {
        let table = Handles::new();
        let id = table.insert(Arc::new(1)).unwrap();
        table.slots.write().all[0].generation = MAX_GENERATION;
        let last = ((i64::from(MAX_GENERATION)) << 32) | (id & 0xFFFF_FFFF);
        assert!(table.remove(last).is_some());
        let next = table.insert(Arc::new(2)).unwrap();
        assert_ne!(next & 0xFFFF_FFFF, id & 0xFFFF_FFFF);
    }
}
