//! The embedded metadata seen from outside, for the operator tool.
//!
//! Promises: read-only, also while a broker works on the directory: what it sees is the newest checkpoint, and a file that the
//! broker removes meanwhile is an error, never an absence. Every block that is read passes its checksum.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use rocksdb::{IteratorMode, Options, ReadOptions, DB};

use super::frame::Scope;
use super::layout::{damage_of, damage_range, key_of, meta_of, record_key, versioned, Damage, Position, META};
use crate::error::{Error, Result};
use crate::metadata::Versioned;
use crate::record::{Key, RecordType};

/// What the newest checkpoint of a data directory covers.
pub struct Checkpoint {
    db: DB,
    directory: PathBuf,
}

impl Checkpoint {
    /// Opens the checkpoint of a data directory; `None` when it has no embedded metadata yet. `Corrupt` for a damaged one.
    pub fn open(data_directory: &Path) -> Result<Option<Checkpoint>> {
        let directory = data_directory.join("metadata");
        if !directory
            .try_exists()
            .map_err(|e| Error::io("look for", directory.display().to_string(), e))?
        {
            return Ok(None);
        }
        let mut options = Options::default();
        options.set_paranoid_checks(true);
        // Without the log of its own there is nothing else to look at than what was flushed.
        match DB::open_for_read_only(&options, &directory, false) {
            Ok(db) => Ok(Some(Checkpoint { db, directory })),
            Err(reason) => Err(damaged(&directory, &reason)),
        }
    }

    /// The data directory's identity and the journal position that is covered; `None` before the first checkpoint.
    pub fn position(&self) -> Result<Option<(u128, Position)>> {
        let Some(stored) = self.db.get(META).map_err(|e| damaged(&self.directory, &e))? else {
            return Ok(None);
        };
        let meta = meta_of(&stored, &self.directory.display().to_string())?;
        Ok(Some((meta.directory_id, meta.position)))
    }

    /// Every record, ascending by kind and stream. An item that fails is one damaged record, or the end when a file is damaged.
    pub fn records(&self) -> impl Iterator<Item = Result<(Key, Versioned)>> + '_ {
        let kinds = RecordType::ALL.iter().map(|(kind, _)| Key::kind_range(*kind));
        let ranges = kinds.map(|(from, to)| (record_key(&from), record_key(&to)));
        ranges.flat_map(move |(from, to)| self.range(&from, &to)).map(|entry| {
            let (stored, value) = entry?;
            let key = key_of(&stored)?;
            let value = versioned(&key, &value)?;
            Ok((key, value))
        })
    }

    /// Damage that earlier recoveries recorded, with whom it concerns: `None` = everything, `Some(None)` = keys without a stream.
    pub fn damages(&self) -> Result<Vec<(Option<Scope>, Damage)>> {
        let (from, to) = damage_range();
        let mut damages = Vec::new();
        for entry in self.range(&from, &to) {
            let (key, value) = entry?;
            damages.extend(damage_of(&key, &value));
        }
        Ok(damages)
    }

    fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = Result<(Bytes, Bytes)>> + '_ {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(from);
        options.set_iterate_upper_bound(to);
        options.set_verify_checksums(true);
        // A tool that looks once does not keep what it looked at.
        options.fill_cache(false);
        let entries = self.db.iterator_opt(IteratorMode::Start, options);
        entries.map(|entry| {
            let (key, value) = entry.map_err(|e| damaged(&self.directory, &e))?;
            Ok((Bytes::from(key), Bytes::from(value)))
        })
    }
}

fn damaged(directory: &Path, reason: &rocksdb::Error) -> Error {
    Error::Corrupt {
        what: "the embedded metadata store".into(),
        place: directory.display().to_string(),
        detail: format!(
            "{reason}; if a broker is at work on it, look again. Restore the data directory from a copy otherwise"
        ),
    }
}
