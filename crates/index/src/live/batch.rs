//! The writes since the last refresh.

use std::collections::HashMap;

use warpseek_text::Document;

use crate::build::SegmentBuilder;
use crate::error::Result;
use crate::manifest::{Content, Manifest};

/// A segment in the making, and the ids that were written.
pub(super) struct Batch {
    pub(super) builder: SegmentBuilder,
    /// The newest document of each id that was written; `None` if it was deleted. Older documents of these ids, in all segments, are deleted by the next refresh.
    pub(super) newest: HashMap<String, Option<u32>>,
    /// Documents of this batch that a later write of it has replaced or deleted.
    pub(super) superseded: Vec<u32>,
    /// Whether its documents are text or vectors; `None` if it has none.
    pub(super) content: Option<Content>,
}

impl Batch {
    /// An empty batch, which takes the next segment number of `settings`.
    pub(super) fn new(settings: &mut Manifest) -> Result<Self> {
        let builder = SegmentBuilder::new(settings)?;
        settings.next_segment += 1;
        Ok(Batch { builder, newest: HashMap::new(), superseded: Vec::new(), content: None })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    pub(super) fn put(&mut self, document: &Document<'_>) -> Result<()> {
        let ordinal = self.builder.add(document)?;
        self.content = Some(content_of(document));
        self.set(&document.id, Some(ordinal));
        Ok(())
    }

    pub(super) fn delete(&mut self, id: &str) {
        self.set(id, None);
    }

    fn set(&mut self, id: &str, ordinal: Option<u32>) {
        let before = self.newest.insert(id.to_owned(), ordinal);
        self.superseded.extend(before.flatten());
    }
}

/// What an index must be of to have the document.
pub(super) fn content_of(document: &Document<'_>) -> Content {
    if document.vector.is_some() { Content::Vector } else { Content::Text }
}
