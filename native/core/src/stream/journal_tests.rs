//! The stream suite over the journal, with its files on the real disk and its state in a model of the backend.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tokio::runtime::Runtime;

use super::suite::{stream_suite, Fixture, MAX_ENTRY};
use crate::commit::{Commit, Log, ReadTarget};
use crate::env::Env;
use crate::journal::{Journal, ModelBackend, Options};

struct Journals {
    directory: tempfile::TempDir,
    backend: ModelBackend,
    open: Option<Arc<Journal>>,
}

fn journals() -> Journals {
    Journals {
        directory: tempfile::tempdir().unwrap(),
        backend: ModelBackend::default(),
        open: None,
    }
}

impl Fixture for Journals {
    fn open(&mut self, rt: &Runtime, env: &Env) -> Arc<dyn Log> {
        let options = Options {
            reserve_bytes: 0,
            ..Options::new(self.directory.path().to_path_buf(), 7, 16 << 20, MAX_ENTRY as usize)
        };
        let journal = rt
            .block_on(Journal::open_on(env.clone(), options, Arc::new(self.backend.clone())))
            .unwrap();
        self.open = Some(journal.clone());
        journal
    }

    fn close(&mut self, rt: &Runtime) {
        if let Some(journal) = self.open.take() {
            rt.block_on(journal.close()).unwrap();
        }
    }

    fn damage(&mut self, commit: Commit) {
        let ReadTarget::Journal {
            segment,
            position,
            length,
        } = commit.target
        else {
            panic!("{:?}", commit.target)
        };
        let mut files: Vec<_> = std::fs::read_dir(self.directory.path().join("journal"))
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        files.retain(|file| {
            file.file_stem()
                .is_some_and(|stem| stem.to_string_lossy() == format!("{segment:016x}"))
        });
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&files[0])
            .unwrap();
        let at = position + length - 10;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    }
}

stream_suite!(journals());
