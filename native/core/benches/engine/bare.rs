//! The least a group-commit log can do: one thread takes everything queued, writes it with one call over blocks that were written
//! before, syncs, answers. Each entry has a length and one CRC32C before it, without which no log can tell a torn tail; no streams,
//! no heads, no order but the queue's, nothing that reads it again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::load::Log;

/// Bytes of the file; at its end the writing begins again.
const FILE_BYTES: usize = 128 << 20;
/// Groups fill whole blocks, so that nothing has to be read to write them.
const BLOCK: usize = 4096;

type Reply = Box<dyn FnOnce() + Send>;

pub struct Bare {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    syncs: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<(Bytes, Reply)>,
    closed: bool,
}

impl Bare {
    pub fn open(path: &Path) -> Bare {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .expect("a new file");
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, FILE_BYTES as u64).expect("space");
        for pass in [0u8, 1] {
            let step = vec![pass; 1 << 20];
            for at in (0..FILE_BYTES).step_by(step.len()) {
                file.write_all_at(&step, at as u64).expect("a write");
            }
            file.sync_data().expect("a sync");
        }
        let shared = Arc::new(Shared::default());
        let work = shared.clone();
        let writer = std::thread::Builder::new().name("bare-log".into());
        Bare {
            shared,
            writer: Some(writer.spawn(move || write(&work, &file)).expect("a thread")),
        }
    }
}

impl Log for Bare {
    fn append(&self, _stream: usize, entry: Bytes, reply: impl FnOnce() + Send + 'static) {
        let reply = Box::new(reply);
        self.shared.queue.lock().waiting.push((entry, reply));
        self.shared.filled.notify_one();
    }

    fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }
}

fn write(shared: &Shared, file: &File) {
    let (mut group, mut buffer, mut position) = (Vec::new(), Vec::new(), 0usize);
    loop {
        {
            let mut queue = shared.queue.lock();
            while queue.waiting.is_empty() {
                if queue.closed {
                    return;
                }
                shared.filled.wait(&mut queue);
            }
            std::mem::swap(&mut group, &mut queue.waiting);
        }
        buffer.clear();
        for (entry, _) in &group {
            buffer.extend_from_slice(&(entry.len() as u32).to_be_bytes());
            buffer.extend_from_slice(&crc32c::crc32c(entry).to_be_bytes());
            buffer.extend_from_slice(entry);
        }
        buffer.resize(buffer.len().next_multiple_of(BLOCK), 0);
        if position + buffer.len() > FILE_BYTES {
            position = 0;
        }
        file.write_all_at(&buffer, position as u64).expect("a write");
        file.sync_data().expect("a sync");
        position += buffer.len();
        shared.syncs.fetch_add(1, Ordering::Relaxed);
        for (_, reply) in group.drain(..) {
            reply();
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.filled.notify_one();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so.
            let _ = writer.join();
        }
    }
}
