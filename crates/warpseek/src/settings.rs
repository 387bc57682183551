//! How an index reads queries, apart from its documents.

use warpseek_codec::CodecId;
use warpseek_index::{Manifest, StoreMode};

/// The manifest of an index without documents that reads queries as this one does. It is the same for all parts of a collection, and [`Manifest::to_bytes`] writes it.
pub fn settings(of: &Manifest) -> Manifest {
    Manifest {
        generation: 1,
        next_segment: 1,
        codec: CodecId::BitPack,
        store: StoreMode::Ids,
        norms: false,
        static_field: None,
        log: None,
        segments: Vec::new(),
        ..of.clone()
    }
}

/// Reads settings that were written elsewhere. The error says what is wrong with them.
pub fn read_settings(bytes: &[u8]) -> Result<Manifest, String> {
    let read: Manifest = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if read.analyzer_version != read.analyzer.version() {
        return Err(format!(
            "its terms are made by version {} of analyzer `{}`, and this program has version {}; use the same program on all machines",
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
