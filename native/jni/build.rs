//! Computes the build id: `<crate version>+<hash of the native sources>`.
//!
//! The jar and the library name their build id to each other before anything else; equal ids mean that both come from the same
//! sources. How the packaging reads it: the library contains the bytes `NEREUS_BUILD_ID=<id>;` exactly once, where `<id>` consists
//! of `[0-9A-Za-z.+-]`. The build that packs the jar searches the finished library for them and writes
//! `/nereus-build.properties` with `buildId=<id>`, so the jar can never name another id than the library inside it carries.
//!
//! Asks the linker to mark the library as one that is never unloaded: threads of the JVM that called it run its destructors of
//! thread-local data when they end, long after a class loader may have let it go.
//!
//! The hash is FNV-1a (64 bits) over path and content of every source file, in order of the paths: no dependency, the same on every
//! machine. It tells builds apart; it proves nothing against an attacker.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What makes a library another one, seen from the workspace root.
const SOURCES: [&str; 5] = [
    "Cargo.toml",
    "Cargo.lock",
    "native/core/Cargo.toml",
    "native/jni/Cargo.toml",
    "native/jni/build.rs",
];
const SOURCE_TREES: [&str; 2] = ["native/core/src", "native/jni/src"];

fn main() -> Result<(), Box<dyn Error>> {
    let crate_directory = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = crate_directory.join("../..");
    let mut files: Vec<String> = SOURCES.iter().map(|name| (*name).to_owned()).collect();
    for tree in SOURCE_TREES {
        collect(&root, tree, &mut files)?;
        println!("cargo:rerun-if-changed={}", root.join(tree).display());
    }
    files.sort();
    let mut hash = Fnv::new();
    for file in &files {
        let path = root.join(file);
        println!("cargo:rerun-if-changed={}", path.display());
        hash.update(file.as_bytes());
        hash.update(&[0]);
        hash.update(&fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?);
        hash.update(&[0]);
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!(
        "cargo:rustc-env=NEREUS_BUILD_ID={}+{:016x}",
        env::var("CARGO_PKG_VERSION")?,
        hash.0
    );
    Ok(())
}

/// Adds every Rust file below `tree` to `files`, as a path relative to `root`.
fn collect(root: &Path, tree: &str, files: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(root.join(tree))? {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| format!("file name {name:?} in {tree} is not UTF-8"))?;
        let path = format!("{tree}/{name}");
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}

struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
