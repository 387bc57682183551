//! The settings with which an index reads queries, separated from its documents.

use warpseek_codec::CodecId;
use warpseek_index::{Manifest, StoreMode};

/// Returns the manifest of an index without documents that reads queries as the given one does.
/// It is the same for all parts of a collection. [`Manifest::to_bytes`] serializes it.
pub fn settings(manifest: &Manifest) -> Manifest {
    Manifest {
        generation: 1,
        next_segment: 1,
        codec: CodecId::BitPack,
        store: StoreMode::Ids,
        norms: false,
        static_field: None,
        log: None,
        segments: Vec::new(),
        ..manifest.clone()
    }
}

/// Parses settings written by [`Manifest::to_bytes`], possibly on another machine. The error
/// describes the problem.
pub fn read_settings(bytes: &[u8]) -> Result<Manifest, String> {
    let read: Manifest = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if read.analyzer_version != read.analyzer.version() {
        return Err(format!(
            "its terms were produced by version {} of analyzer `{}`, but this program has version {}; use the same program on all machines",
            read.analyzer_version,
            read.analyzer,
            read.analyzer.version()
        ));
    }
    if read.vector_scale == 0 {
        return Err("vector scale is zero".to_owned());
    }
    Ok(settings(&read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Index;

    #[test]
    fn settings_come_back_as_they_were_and_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::create(folder.path().join("index")).unwrap();
        let own = settings(&index.manifest().unwrap());
        assert_eq!(read_settings(&own.to_bytes()).unwrap(), own);
        let other = Manifest { analyzer_version: own.analyzer_version + 1, ..own.clone() };
        assert!(read_settings(&other.to_bytes()).unwrap_err().contains("same program"));
        assert!(read_settings(&Manifest { vector_scale: 0, ..own }.to_bytes()).is_err());
        assert!(read_settings(b"{}").is_err());
    }
}
