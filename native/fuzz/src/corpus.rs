//! Fixed inputs: small files, each `<target>-<case>.bin`, decoded with every change of the core.
//!
//! The tool writes them (`--write-corpus`): per target one valid encoding, some refused and some accepted damaged ones, chosen by
//! the shape of what happened, and whatever input once failed (`--keep SEED`). Files are never overwritten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::run::{self, Kind, Verdict};
use crate::targets::{Target, ALL};

/// Largest file.
const MOST_BYTES: usize = 6 * 1024;
/// Files of one target, per verdict.
const PER_VERDICT: usize = 5;

/// Where the corpus lies in the source tree.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Every file with its target, by name. A file of no target is an error.
pub fn read(directory: &Path) -> io::Result<Vec<(String, &'static Target, Vec<u8>)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let load = |name: String| {
        let target = ALL
            .iter()
            .copied()
            .find(|target| name.split('-').next() == Some(target.name));
        let target = target.ok_or_else(|| io::Error::other(format!("{name} is of no target")))?;
        let bytes = fs::read(directory.join(&name))?;
        Ok((name, target, bytes))
    };
    names.into_iter().map(load).collect()
}

/// Adds the input of a seed; the name says what it is.
pub fn keep(directory: &Path, seed: u64) -> io::Result<PathBuf> {
    let input = run::input(seed);
    put(directory, input.target.name, &format!("kept-{seed}"), &input.bytes)
}

/// Adds inputs of every target, from the seeds from 0 on.
pub fn write(directory: &Path) -> io::Result<usize> {
    let mut written = 0;
    for target in ALL {
        let mut left = [
            (Kind::Valid, true, 1),
            (Kind::Mended, true, PER_VERDICT),
            (Kind::Mended, false, PER_VERDICT),
            (Kind::Damaged, false, 2),
        ];
        for seed in 0..200_000 {
            let (input, verdict) = run::seed(seed, None);
            let accepted = verdict == Verdict::Accepted;
            if input.target.name != target.name || input.bytes.len() > MOST_BYTES {
                continue;
            }
            if let Some((_, _, left)) = left
                .iter_mut()
                .find(|(k, a, left)| (*k, *a) == (input.kind, accepted) && *left > 0)
            {
                *left -= 1;
                let case = format!(
                    "{:?}-{}-{seed}",
                    input.kind,
                    if accepted { "accepted" } else { "refused" }
                );
                put(directory, target.name, &case.to_lowercase(), &input.bytes)?;
                written += 1;
            }
            if left.iter().all(|(_, _, left)| *left == 0) {
                break;
            }
        }
    }
    Ok(written)
}

fn put(directory: &Path, target: &str, case: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let path = directory.join(format!("{target}-{case}.bin"));
    fs::create_dir_all(directory)?;
    if !path.exists() {
        fs::write(&path, bytes)?;
    }
    Ok(path)
}
