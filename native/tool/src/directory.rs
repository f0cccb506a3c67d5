//! A data directory, opened for looking.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nereus_core::binding::{DirectoryId, DirectoryLock};
use nereus_core::env::real::OsDisk;
use nereus_core::journal::segment::Segments;
use nereus_core::journal::{Checkpoint, Position};
use nereus_core::{Error, Result};

/// Everything that lies in a data directory.
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// Its identity.
    pub id: DirectoryId,
    /// What the newest process that used it wrote about itself.
    pub last_holder: Option<String>,
    /// Its segments; `None` when there is no journal yet.
    pub segments: Option<Arc<Segments>>,
    /// The newest checkpoint, or why it cannot be opened; `None` when there is none yet.
    pub checkpoint: Option<Result<Checkpoint>>,
    /// The frames that the checkpoint covers.
    pub covered: Option<Position>,
}

impl Directory {
    /// Opens a directory. `Invalid` when it is no data directory.
    pub fn open(path: &Path) -> Result<Directory> {
        let id = DirectoryId::read(&OsDisk, path)?.ok_or_else(|| Error::Invalid {
            what: format!("{} is no data directory of Nereus: it has no nereus.id", path.display()),
        })?;
        let last_holder = DirectoryLock::last_holder(&OsDisk, path)?;
        let journal = path.join("journal");
        // Opening the segments would make the directory; a tool that only looks does not.
        let exists = journal
            .try_exists()
            .map_err(|e| Error::io("look for", journal.display().to_string(), e))?;
        let segments = if exists {
            Some(Arc::new(Segments::new(Arc::new(OsDisk), journal)?))
        } else {
            None
        };
        let checkpoint = match Checkpoint::open(path) {
            Ok(checkpoint) => checkpoint.map(Ok),
            Err(error) => Some(Err(error)),
        };
        let position = match &checkpoint {
            Some(Ok(checkpoint)) => checkpoint.position()?,
            _ => None,
        };
        if let Some((other, _)) = position.filter(|(other, _)| *other != id.uuid) {
            let what = format!(
                "{}: metadata of data directory {other:032x} lies in data directory {:032x}; restore both from one copy",
                path.display(),
                id.uuid
            );
            return Err(Error::Invalid { what });
        }
        let covered = position.map(|(_, position)| position);
        Ok(Directory {
            path: path.to_owned(),
            id,
            last_holder,
            segments,
            checkpoint,
            covered,
        })
    }
}

/// A failure of the output: there is nobody left to tell.
pub fn output(error: std::io::Error) -> Error {
    Error::io("write", "the output", error)
}
