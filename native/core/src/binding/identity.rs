//! The identity file of a data directory.
//!
//! Text, so that an operator can read it; replaced as a whole (new file, sync, rename, sync of the directory), so that a crash
//! leaves the old or the new one.

use std::io;
use std::path::Path;

use crate::env::{Disk, OpenMode};
use crate::error::{Error, Result};
use crate::metadata::pulsar::{decode_name, encode_name};

/// Name of the file in the data directory.
pub const ID_FILE: &str = "nereus.id";
const NEW_FILE: &str = "nereus.id.new";
const FIRST_LINE: &str = "nereus data directory, format ";
const MAX_BYTES: u64 = 64 * 1024;

/// What a data directory knows about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryId {
    /// Pulsar's cluster name.
    pub cluster: String,
    /// Made once, never 0.
    pub uuid: u128,
    /// The journal epoch of the newest start whose cluster record is known to be raised; 0 = none yet.
    pub epoch: u64,
    /// The epoch that a start is about to write into the cluster record; 0 = none. Noted before the record is raised, so that a
    /// crash between the two is not mistaken for an older copy.
    pub pending: u64,
}

impl DirectoryId {
    /// Reads the identity of a directory; `None` when there is no file. `Corrupt` for a damaged one.
    pub fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<DirectoryId>> {
        let path = directory.join(ID_FILE);
        let text = match read_text(disk, &path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("read", path.display().to_string(), e)),
        };
        Self::parse(&text).map(Some).map_err(|problem| match problem {
            Problem::Damaged(detail) => Error::Corrupt {
                what: "the identity of the data directory".into(),
                place: path.display().to_string(),
                detail: format!("{detail}; restore the file from a copy of this directory"),
            },
            Problem::Newer(format) => Error::Unsupported {
                feature: format!(
                    "format {format} of {}: it was written by a newer Nereus",
                    path.display()
                ),
            },
        })
    }

    /// Replaces the identity of a directory; durable when it returns.
    pub fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<()> {
        let path = directory.join(ID_FILE);
        let replace = || {
            let new = directory.join(NEW_FILE);
            match disk.remove(&new) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let file = disk.open(&new, OpenMode::CreateNew)?;
            file.write_all_at(self.text().as_bytes(), 0)?;
            file.sync_data()?;
            disk.rename(&new, &path)?;
            disk.sync_dir(directory)
        };
        replace().map_err(|e| Error::io("write", path.display().to_string(), e))
    }

    /// Refuses a directory that has content but no identity. `Invalid` names what lies there.
    pub fn check_empty(disk: &dyn Disk, directory: &Path) -> Result<()> {
        let entries = disk
            .list(directory)
            .map_err(|e| Error::io("list", directory.display().to_string(), e))?;
        let ours = [super::lock::LOCK_FILE, NEW_FILE, "lost+found"];
        match entries.iter().find(|entry| !ours.iter().any(|name| entry.as_path() == Path::new(name))) {
            Some(other) => Err(Error::Invalid {
                what: format!(
                    "directory {} has no {ID_FILE} but is not empty ({} lies there): it is no data directory of Nereus or lost its \
                     identity; name an empty directory or restore the file",
                    directory.display(),
                    other.display()
                ),
            }),
            None => Ok(()),
        }
    }

    fn text(&self) -> String {
        let text = format!(
            "{FIRST_LINE}1\ncluster={}\nuuid={:032x}\nepoch={}\npending={}\n",
            encode_name(&self.cluster),
            self.uuid,
            self.epoch,
            self.pending
        );
        let crc = crc32c::crc32c(text.as_bytes());
        format!("{text}crc32c={crc:08x}\n")
    }

    fn parse(text: &str) -> std::result::Result<DirectoryId, Problem> {
        let damaged = |detail: &str| Problem::Damaged(detail.to_owned());
        let format = text.lines().next().and_then(|line| line.strip_prefix(FIRST_LINE));
        let format = format.ok_or_else(|| damaged("the first line is not that of a data directory"))?;
        match format.parse::<u32>() {
            Ok(1) => {}
            Ok(newer) if newer > 1 => return Err(Problem::Newer(newer)),
            _ => return Err(damaged("the format is no number")),
        }
        let id = Self::fields(text).ok_or_else(|| damaged("a line is missing or unreadable"))?;
        // Whatever differs from what would be written, the checksum included, was not written by Nereus.
        if id.text() == text && id.uuid != 0 && !id.cluster.is_empty() {
            Ok(id)
        } else {
            Err(damaged("the checksum does not fit the lines"))
        }
    }

    fn fields(text: &str) -> Option<DirectoryId> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        Some(DirectoryId {
            cluster: decode_name(field("cluster")?).ok()?,
            uuid: u128::from_str_radix(field("uuid")?, 16).ok()?,
            epoch: field("epoch")?.parse().ok()?,
            pending: field("pending")?.parse().ok()?,
        })
    }
}

enum Problem {
    Damaged(String),
    Newer(u32),
}

fn read_text(disk: &dyn Disk, path: &Path) -> io::Result<String> {
    let file = disk.open(path, OpenMode::Read)?;
    let length = file.length()?;
    if length > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{length} bytes; at most {MAX_BYTES} make sense"),
        ));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    // Damage that is not UTF-8 is found by the checksum.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::env::real::OsDisk;
    use crate::error::ErrorCode;

    fn id() -> DirectoryId {
        DirectoryId {
            cluster: "stand alone/ü\n".into(),
            uuid: 0xabc,
            epoch: 3,
            pending: 4,
        }
    }

    #[test]
    fn identity_is_replaced_as_a_whole() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(DirectoryId::read(&OsDisk, scratch.path()).unwrap(), None);
        std::fs::write(scratch.path().join(NEW_FILE), "left by a crash").unwrap();
        DirectoryId::check_empty(&OsDisk, scratch.path()).unwrap();
        id().write(&OsDisk, scratch.path()).unwrap();
        let second = DirectoryId {
            epoch: 4,
            pending: 0,
            ..id()
        };
        second.write(&OsDisk, scratch.path()).unwrap();
        assert_eq!(DirectoryId::read(&OsDisk, scratch.path()).unwrap(), Some(second));
        assert!(!scratch.path().join(NEW_FILE).exists());
    }

    #[test]
    fn a_directory_with_content_but_without_identity_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("journal")).unwrap();
        let error = DirectoryId::check_empty(&OsDisk, scratch.path()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Invalid);
        assert!(error.to_string().contains("journal lies there"), "{error}");
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join(ID_FILE), format!("{FIRST_LINE}2\nwhatever=1\n")).unwrap();
        let error = DirectoryId::read(&OsDisk, scratch.path()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
        assert!(error.to_string().contains("format 2"), "{error}");
    }

    #[test]
    fn an_oversized_file_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join(ID_FILE), vec![b'x'; 65 * 1024]).unwrap();
        assert_eq!(
            DirectoryId::read(&OsDisk, scratch.path()).unwrap_err().code(),
            ErrorCode::Io
        );
    }

    proptest! {
        #[test]
        fn every_change_of_the_file_is_found(at: prop::sample::Index, byte: u8) {
            let scratch = tempfile::tempdir().unwrap();
            let mut bytes = id().text().into_bytes();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            std::fs::write(scratch.path().join(ID_FILE), bytes).unwrap();
            let code = DirectoryId::read(&OsDisk, scratch.path()).unwrap_err().code();
            prop_assert!(matches!(code, ErrorCode::Corrupt | ErrorCode::Unsupported));
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = DirectoryId::parse(&text);
        }
    }
}
