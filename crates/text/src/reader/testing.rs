//! Helpers for the tests of the formats.

use std::sync::Arc;

use super::chunk::Limits;
use super::source::Source;
use super::{Cutter, Format, Input, RawBatch, ReaderConfig};
use crate::{Document, RecordError, RecordErrorKind, TextError};

/// Records that outlive their batch.
pub(super) type Read = Vec<Result<Document<'static>, RecordError>>;

/// Reads `bytes` as one file named `input.ext`.
pub(super) fn try_read(
    config: ReaderConfig,
    format: Format,
    bytes: &[u8],
) -> Result<Read, TextError> {
    let source = Source {
        path: None,
        format,
        name: "input.ext".to_owned(),
        relative: Some("input.ext".to_owned()),
        columns: Default::default(),
        size: None,
    };
    let bytes = std::io::Cursor::new(bytes.to_vec());
    let mut input = Input::over(bytes, Arc::new(source), Limits::of(&config))?;
    let (mut cutter, config) = (Cutter::new(format), Arc::new(config));
    let (mut read, mut more) = (Vec::new(), true);
    while more {
        let mut batch = RawBatch::new(Arc::clone(&config));
        while more && !batch.is_full() {
            more = cutter.cut(&mut input, &mut batch, &config)?;
        }
        read.extend((0..batch.len()).map(|i| batch.record(i).map(|document| own(&document))));
    }
    Ok(read)
}

/// Reads `bytes` with the default configuration.
pub(super) fn read(format: Format, bytes: &[u8]) -> Read {
    try_read(ReaderConfig::default(), format, bytes).unwrap()
}

fn own(document: &Document<'_>) -> Document<'static> {
    let own = |text: &str| text.to_owned();
    let mut owned = Document::new(own(&document.id), own(&document.title), own(&document.text));
    owned.fields = document.fields.iter().map(|(n, text)| (*n, own(text).into())).collect();
    owned.attributes =
        document.attributes.iter().map(|(n, value)| (*n, value.clone().into_owned())).collect();
    owned.static_score = document.static_score;
    owned.order_key = document.order_key.as_deref().map(|key| own(key).into());
    owned.vector = document.vector.as_ref().map(|weights| {
        weights.iter().map(|(token, weight)| (own(token).into(), *weight)).collect()
    });
    owned
}

/// Returns the ids of the good records.
pub(super) fn ids(read: &Read) -> Vec<&str> {
    read.iter().flatten().map(|document| document.id.as_ref()).collect()
}

/// Returns the lines and kinds of the bad records.
pub(super) fn errors(read: &Read) -> Vec<(u64, RecordErrorKind)> {
    let errors = read.iter().filter_map(|record| record.as_ref().err());
    errors.map(|error| (error.location.line().unwrap_or(0), error.kind.clone())).collect()
}
