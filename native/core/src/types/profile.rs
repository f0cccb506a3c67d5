//! Closed sets that are fixed when a topic incarnation is born.

use std::fmt;

/// Which primary WAL a stream uses and when a producer is acknowledged. Kept for the stream's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Journal, one fdatasync per group; acknowledged at the stable head. The default.
    LocalWalAsyncObject,
    /// Object store; acknowledged at the stable head.
    ObjectWalAsyncObject,
    /// Object store; acknowledged at the stable head and the generation-0 index.
    ObjectWalSyncObject,
    /// BookKeeper, never objectised.
    BookkeeperWalOnly,
    /// BookKeeper; objects follow.
    BookkeeperWalAsyncObject,
    /// BookKeeper; acknowledged with a verified object generation.
    BookkeeperWalSyncObject,
}

impl Profile {
    /// Every profile with its configuration name and stored number.
    pub const ALL: &'static [(Profile, &'static str, u32)] = &[
        (Profile::LocalWalAsyncObject, "LOCAL_WAL_ASYNC_OBJECT", 1),
        (Profile::ObjectWalAsyncObject, "OBJECT_WAL_ASYNC_OBJECT", 2),
        (Profile::ObjectWalSyncObject, "OBJECT_WAL_SYNC_OBJECT", 3),
        (Profile::BookkeeperWalOnly, "BOOKKEEPER_WAL_ONLY", 4),
        (Profile::BookkeeperWalAsyncObject, "BOOKKEEPER_WAL_ASYNC_OBJECT", 5),
        (Profile::BookkeeperWalSyncObject, "BOOKKEEPER_WAL_SYNC_OBJECT", 6),
    ];

    /// The profile with this configuration name.
    pub fn from_name(name: &str) -> Option<Profile> {
        Self::ALL.iter().find(|(_, n, _)| *n == name).map(|(p, _, _)| *p)
    }

    /// The profile stored under this number.
    pub fn from_number(number: u32) -> Option<Profile> {
        Self::ALL.iter().find(|(_, _, n)| *n == number).map(|(p, _, _)| *p)
    }

    /// The stored number.
    pub fn number(self) -> u32 {
        Self::ALL.iter().find(|(p, _, _)| *p == self).map_or(0, |(_, _, n)| *n)
    }

    /// The configuration name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(p, _, _)| *p == self).map_or("", |(_, n, _)| n)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A read view: separate namespaces that never answer for each other (L10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReadView {
    /// Dense and lossless.
    Committed,
    /// By key, may be sparse.
    TopicCompacted,
}

impl ReadView {
    /// The stored number.
    pub const fn number(self) -> u8 {
        match self {
            ReadView::Committed => 1,
            ReadView::TopicCompacted => 2,
        }
    }

    /// The view stored under this number.
    pub const fn from_number(number: u8) -> Option<ReadView> {
        match number {
            1 => Some(ReadView::Committed),
            2 => Some(ReadView::TopicCompacted),
            _ => None,
        }
    }
}

impl fmt::Display for ReadView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadView::Committed => "COMMITTED",
            ReadView::TopicCompacted => "TOPIC_COMPACTED",
        })
    }
}

/// Where a topic incarnation lives, for its whole life (L13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorageClass {
    /// This engine.
    Nereus,
    /// Stock BookKeeper.
    Bookkeeper,
}

impl StorageClass {
    /// The stored number.
    pub const fn number(self) -> u32 {
        match self {
            StorageClass::Nereus => 1,
            StorageClass::Bookkeeper => 2,
        }
    }

    /// The class stored under this number.
    pub const fn from_number(number: u32) -> Option<StorageClass> {
        match number {
            1 => Some(StorageClass::Nereus),
            2 => Some(StorageClass::Bookkeeper),
            _ => None,
        }
    }
}

impl fmt::Display for StorageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StorageClass::Nereus => "nereus",
            StorageClass::Bookkeeper => "bookkeeper",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found_by_name_and_number() {
        for (profile, name, number) in Profile::ALL {
            assert_eq!(Profile::from_name(name), Some(*profile));
            assert_eq!(Profile::from_number(*number), Some(*profile));
            assert_eq!((profile.name(), profile.number()), (*name, *number));
            assert_eq!(profile.to_string(), *name);
        }
        assert_eq!(Profile::from_name("local_wal_async_object"), None);
        assert_eq!(Profile::from_number(0), None);
    }

    #[test]
    fn views_and_classes_round_trip_by_number() {
        for view in [ReadView::Committed, ReadView::TopicCompacted] {
            assert_eq!(ReadView::from_number(view.number()), Some(view));
        }
        for class in [StorageClass::Nereus, StorageClass::Bookkeeper] {
            assert_eq!(StorageClass::from_number(class.number()), Some(class));
        }
        assert_eq!((ReadView::from_number(0), StorageClass::from_number(3)), (None, None));
    }
}
