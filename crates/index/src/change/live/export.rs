//! Export of an index while it accepts writes.

use std::fs;
use std::path::Path;

use super::LiveIndex;
use crate::build::Progress;
use crate::directory::{place_manifest, sync_dir};
use crate::error::{IndexError, Result};
use crate::files::manifest::SegmentEntry;

impl LiveIndex {
    /// Flushes all writes so far and creates an index with the same segments, without a log, in
    /// the empty directory `dir`. Returns the manifest's generation.
    ///
    /// Files never change, so they are linked if the file system supports it, and copied
    /// otherwise. Writes and searches continue during the export. All bytes are verified first,
    /// so that damage is not copied.
    pub fn export(&self, dir: &Path) -> Result<u64> {
        self.flush()?;
        self.committed().verify_again(&Progress::default())?;
        // While this lock is held, nothing is committed and therefore no file is removed.
        let _flushing = self.flushing();
        let mut manifest = self.committed().manifest().clone();
        manifest.log = None;
        for name in manifest.segments.iter().flat_map(SegmentEntry::file_names) {
            let (from, to) = (self.dir().join(&name), dir.join(&name));
            if fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to).map_err(IndexError::io(&from))?;
            }
        }
        place_manifest(dir, &manifest)?;
        sync_dir(dir)?;
        Ok(manifest.generation)
    }
}

#[cfg(test)]
mod tests {
    use crate::LiveOptions;
    use crate::build::{BuildConfig, Progress};
    use crate::change::create::create;
    use crate::change::live::LiveIndex;
    use crate::check::verify::verify;

    #[test]
    fn a_copy_has_all_writes_and_is_an_index_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, copy) = (folder.path().join("index"), folder.path().join("copy"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::create_dir(&copy).unwrap();
        create(&dir, &[], &BuildConfig::default(), false, &Progress::default()).unwrap();
        let live = LiveIndex::open(&dir, LiveOptions::default()).unwrap();
        for i in 0..20 {
            live.put(&format!(r#"{{"id": "{i}", "text": "word{i}"}}"#)).unwrap().wait().unwrap();
            if i == 10 {
                live.flush().unwrap();
            }
        }
        live.delete("3").unwrap().unwrap().wait().unwrap();
        live.export(&copy).unwrap();
        live.put(r#"{"id": "later", "text": "later"}"#).unwrap().wait().unwrap();
        live.close().unwrap();
        assert!(verify(&copy, &Progress::default()).unwrap().problems.is_empty());
        let copied = LiveIndex::open(&copy, LiveOptions::default()).unwrap();
        assert_eq!(copied.snapshot().statistics().documents, 19);
        assert!(!copied.contains("later").unwrap() && !copied.contains("3").unwrap());
        copied.put(r#"{"id": "own", "text": "own"}"#).unwrap().wait().unwrap();
        copied.close().unwrap();
        let first = LiveIndex::open(&dir, LiveOptions::default()).unwrap();
        assert_eq!(first.snapshot().statistics().documents, 20);
    }
}
