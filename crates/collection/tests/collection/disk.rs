//! A full disk. The test needs a small file system, which only root can mount, and is skipped
//! otherwise.

use std::path::{Path, PathBuf};
use std::process::Command;

use warpseek::Index;
use warpseek_collection::{CollectionError, shard_folder};
use warpseek_testkit::skips::skipped;

use crate::{Space, lines};

/// A file system in memory that is unmounted when this is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, size: &str) -> Result<Self, String> {
        std::fs::create_dir_all(at).map_err(|e| e.to_string())?;
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        match mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).output() {
            Ok(done) if done.status.success() => Ok(Small(at.to_owned())),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_old_version() {
    let space = Space::new();
    let cache = space.cache();
    let small = match Small::mount(&cache, "256k") {
        Ok(small) => small,
        Err(why) => {
            return skipped("a full disk", format!("no small file system can be mounted: {why}"));
        }
    };
    let collection = space.collection();
    let old = space.build(&lines(20), 1);
    let folder = collection.fetch_shard(old, 0, &cache).unwrap();
    let large: Vec<String> = (0..30_000u64)
        .map(|i| format!("{{\"id\": \"{i}\", \"text\": \"w{} x{}\"}}\n", i * 7919, i * 104_729))
        .collect();
    let new = space.build(&large, 1);
    let error = collection.fetch_shard(new, 0, &cache).unwrap_err();
    assert!(matches!(error, CollectionError::DiskFull { version: 2, shard: 0, .. }), "{error}");
    assert!(
        error.to_string().contains("does not have enough space for shard 0 of version 2"),
        "{error}"
    );
    // The disk has free space again, and the old version is unchanged.
    let folder_of_new = shard_folder(&cache, "fruit", new, 0);
    assert!(!folder_of_new.exists() && !folder_of_new.with_extension("partial").exists());
    std::fs::write(cache.join("room"), vec![0; 100_000]).unwrap();
    let report = Index::open(&folder).unwrap().verify(&Default::default()).unwrap();
    assert!(report.problems.is_empty());
    drop(small);
}
