//! Bits that flip while the engine is down: where, and whom that may concern.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nereus_core::journal::frame::{self, Frame, BLOCK};
use nereus_core::types::StreamId;

use super::errors::Concern;
use super::power::End;
use super::{Done, World};

/// A bit, and whom its loss may concern.
struct Target {
    path: PathBuf,
    byte: usize,
    concern: Concern,
    what: &'static str,
}

impl World {
    /// The journal goes idle, the process ends, one bit flips, the engine starts.
    pub(super) fn flip(&mut self) -> Done {
        if self.machine.disk.has_crashed() || self.trouble.disk || self.trouble.space {
            return Ok(());
        }
        self.settle_all()?;
        // So long that the last frame is proven by a marker.
        self.pause(40_000)?;
        if self.check_poison()? {
            return Ok(());
        }
        if self.dice.chance(30) {
            if let Some(engine) = self.engine.clone() {
                for topic in &mut self.topics {
                    topic.close_all();
                }
                let closed = self.drive("the close of the engine", async move { engine.close().await })?;
                if closed.is_err() {
                    return Ok(());
                }
            }
        }
        self.die(End::Kill)?;
        if let Some(target) = self.target() {
            let bit = self.dice.below(8);
            self.trace.line(|| {
                format!(
                    "  bit {bit} of byte {} of {} flips: {}",
                    target.byte,
                    target.path.display(),
                    target.what
                )
            });
            self.machine.disk.tamper(&target.path, |bytes| {
                if let Some(byte) = bytes.get_mut(target.byte) {
                    *byte ^= 1 << bit;
                }
            });
            self.flips += 1;
            // The damage of a second one may meet that of the first.
            let concern = if self.flips > 1 {
                Concern::Everything
            } else {
                target.concern
            };
            self.trouble.damage = Some(concern);
        }
        self.boot(None, true)
    }

    fn target(&mut self) -> Option<Target> {
        let paths = self.machine.disk.paths();
        let segments: Vec<PathBuf> = paths
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "seg"))
            .collect();
        // Mostly the newest ones.
        let back = if self.dice.chance(60) {
            0
        } else {
            self.dice.below(segments.len() as u64)
        };
        let at = segments.len().checked_sub(1 + usize::try_from(back).unwrap_or(0))?;
        let path = segments.get(at)?.clone();
        let content = self.machine.disk.content(&path)?;
        if self.dice.chance(6) {
            let byte = usize::try_from(self.dice.below(content.len() as u64)).unwrap_or(0);
            return Some(Target {
                path,
                byte,
                concern: Concern::Everything,
                what: "anywhere",
            });
        }
        let frames = frames(&content);
        let from_end = if self.dice.chance(50) {
            self.dice.below(4)
        } else {
            self.dice.below(frames.len() as u64)
        };
        let chosen = frames.len().checked_sub(1 + usize::try_from(from_end).unwrap_or(0))?;
        let (position, frame) = frames.get(chosen)?;
        let (low, high, concern, what) = self.place(frame);
        let byte = position + low + usize::try_from(self.dice.below((high - low) as u64)).unwrap_or(0);
        Some(Target {
            path,
            byte,
            concern,
            what,
        })
    }

    /// A part of a frame: its bytes from and to, whom it concerns.
    fn place(&mut self, frame: &Frame) -> (usize, usize, Concern, &'static str) {
        let parts: Vec<_> = frame.deltas.iter().filter(|(_, placed)| placed.length > 0).collect();
        let pick = usize::try_from(self.dice.below(parts.len() as u64)).unwrap_or(0);
        match parts.get(pick).filter(|_| self.dice.chance(60)) {
            Some((descriptor, placed)) => {
                let from = usize::try_from(placed.position).unwrap_or(0);
                let to = from + usize::try_from(placed.length).unwrap_or(0);
                (from, to, streams([descriptor.scope()].into_iter()), "a part of a frame")
            }
            None => {
                let concern = streams(frame.scopes().into_iter());
                (
                    0,
                    frame.head_bytes.min(frame.total_bytes),
                    concern,
                    "the head of a frame",
                )
            }
        }
    }
}

fn streams(scopes: impl Iterator<Item = Option<StreamId>>) -> Concern {
    let mut streams = BTreeSet::new();
    for scope in scopes {
        match scope {
            Some(stream) => drop(streams.insert(stream)),
            None => return Concern::Everything,
        }
    }
    Concern::Streams(streams)
}

/// The frames of a segment, one after the other.
fn frames(content: &[u8]) -> Vec<(usize, Frame)> {
    let mut found = Vec::new();
    let mut at = BLOCK;
    while let Some(block) = content.get(at..at + BLOCK) {
        let left = (content.len() - at) as u64;
        let Ok(sizes) = frame::sizes(block, left) else {
            break;
        };
        let Some(frame) = content
            .get(at..at + sizes.head.max(BLOCK))
            .and_then(|head| Frame::decode(head).ok())
        else {
            break;
        };
        at += frame.total_bytes;
        found.push((at - frame.total_bytes, frame));
    }
    found
}
