//! Addition of fields to an index: fields of new documents, and fields that mappings declare.

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use warpseek::schema::SchemaConfig;
use warpseek::{Error, Index, IndexOptions, LiveIndex, Schema};

use super::{OpenIndex, View, live_options};
use crate::elasticsearch::mapping::{Declared, Mapping};
use crate::error::Failure;
use crate::indexes::files::write_whole;

/// A declaration that grows document by document before the index adopts it.
struct Growth<'a> {
    index: &'a OpenIndex,
    mapping: Mapping,
    /// The engine's schema on disk.
    old: Option<SchemaConfig>,
    /// The extended schema, or `None` if nothing was added yet.
    schema: Option<Arc<Schema>>,
}

impl<'a> Growth<'a> {
    /// Starts from the current declaration. The caller holds `growing`.
    fn new(index: &'a OpenIndex) -> Result<Self, Failure> {
        let manifest = Index::at(&index.dir).manifest()?;
        let old = manifest.schema.as_deref().map(|schema| schema.config().clone());
        Ok(Growth { index, mapping: index.view().mapping.clone(), old, schema: None })
    }

    /// Replaces the declaration, if the engine can support it.
    fn declare(&mut self, declared: Declared) -> Result<(), Failure> {
        let (mapping, schema) = self.compiled(declared)?;
        (self.mapping, self.schema) = (mapping, Some(schema));
        Ok(())
    }

    /// Compiles a declaration to a mapping and a schema, which detects every error in it.
    fn compiled(&self, declared: Declared) -> Result<(Mapping, Arc<Schema>), Failure> {
        let mapping = Mapping::new(declared)?;
        let schema = Schema::new(mapping.schema(self.old.as_ref()));
        let schema = schema.map_err(Error::from)?;
        let mapping = mapping.with_schema(schema.config());
        Ok((mapping, Arc::new(schema)))
    }

    /// Adds the fields of a document and returns its line, or `None` if it has no new fields. A
    /// document that would be refused adds no fields.
    fn add(&mut self, id: &str, source: &Map<String, Value>) -> Result<Option<String>, Failure> {
        let Some(declared) = self.mapping.grown(source)? else { return Ok(None) };
        let (mapping, schema) = self.compiled(declared)?;
        let line = mapping.line(id, source)?;
        self.index.live()?.get().check_json(&line, &schema)?;
        (self.mapping, self.schema) = (mapping, Some(schema));
        Ok(Some(line))
    }

    /// Applies the additions to the index, if there are any.
    fn finish(self) -> Result<(), Failure> {
        let Some(schema) = self.schema else { return Ok(()) };
        let path = self.index.declared_at()?;
        self.index.go_over(path, self.mapping, schema, self.old.as_ref())
    }
}

impl OpenIndex {
    fn growing(&self) -> MutexGuard<'_, ()> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Declares the new fields of several documents in one step. A document that would be refused
    /// adds none; its error is reported when it is written.
    pub(crate) fn prepare<'a>(
        &self,
        documents: impl IntoIterator<Item = (&'a str, &'a Map<String, Value>)> + Clone,
    ) -> Result<(), Failure> {
        let view = self.view();
        let brings = |(_, source): (&str, _)| matches!(view.mapping.grown(source), Ok(Some(_)));
        if !documents.clone().into_iter().any(brings) {
            return Ok(());
        }
        let _growing = self.growing();
        let mut growth = Growth::new(self)?;
        for (id, source) in documents {
            let _ = growth.add(id, source);
        }
        growth.finish()
    }

    /// Returns the line of a document to be written, after declaring its new fields. A refused
    /// document changes no declaration; `check` reports other errors before that.
    ///
    /// New fields close and reopen the index, so the caller must not hold it open.
    pub(super) fn line(
        &self,
        id: &str,
        source: &Map<String, Value>,
        check: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<String, Failure> {
        let view = self.view();
        if view.mapping.grown(source)?.is_none() {
            return view.mapping.line(id, source);
        }
        let _growing = self.growing();
        check()?;
        let mut growth = Growth::new(self)?;
        match growth.add(id, source)? {
            Some(line) => growth.finish().map(|()| line),
            // Another thread has added the fields in the meantime.
            None => growth.mapping.line(id, source),
        }
    }

    /// Changes the declaration; `change` modifies the current one.
    pub(crate) fn redeclare(
        &self,
        change: impl FnOnce(&mut Declared) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let _growing = self.growing();
        let mut growth = Growth::new(self)?;
        let mut declared = growth.mapping.declared.clone();
        change(&mut declared)?;
        self.declared_at()?;
        growth.declare(declared)?;
        growth.finish()
    }

    /// Returns the path of the declaration, which only indexes created by a server have.
    fn declared_at(&self) -> Result<&PathBuf, Failure> {
        self.declaration.as_ref().ok_or_else(|| {
            Failure::illegal(format!(
                "index [{}] was not created by the server, so its mapping cannot be changed",
                self.name
            ))
        })
    }

    /// Switches the index to a mapping with further fields. The declaration is written first: if
    /// the server ends before the index has the fields, they are added when it is reopened.
    fn go_over(
        &self,
        path: &Path,
        mapping: Mapping,
        schema: Arc<Schema>,
        old: Option<&SchemaConfig>,
    ) -> Result<(), Failure> {
        write_whole(path, &mapping.declared)?;
        if old.is_some_and(|old| old == schema.config()) {
            self.show(self.view().with_mapping(mapping));
            return Ok(());
        }
        let index = Index::at(&self.dir);
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        let before = self.view().mapping.clone();
        let extended = live.take().map_or(Ok(()), LiveIndex::close).map_err(Failure::from);
        let extended = extended.and_then(|()| self.extend(&index, &mapping, schema));
        // Whatever happened, the index is reopened, with its new fields or without them.
        let opened = index.live(live_options(&self.opening))?;
        let searcher = opened.searcher(self.opening.searcher.clone())?;
        *live = Some(opened);
        let mapping = if extended.is_ok() { mapping } else { before };
        self.show(View::new(searcher, mapping, self.opening.answers.clone()));
        extended
    }

    /// Adds the fields of a mapping to the index, which must be closed.
    fn extend(&self, index: &Index, mapping: &Mapping, schema: Arc<Schema>) -> Result<(), Failure> {
        let snapshot = index.snapshot()?;
        let old = snapshot.manifest().schema.as_deref().map(Schema::config);
        if snapshot.doc_limit() == 0 && old.is_some_and(Mapping::has_placeholder) {
            // An empty index can drop the placeholder field.
            let schema = Schema::new(mapping.schema(None)).map_err(Error::from)?;
            let mut options = IndexOptions::new().schema(schema).overwrite(true);
            if let Some(field) = &snapshot.manifest().static_field {
                options = options.static_field(field);
            }
            Index::create_with(&self.dir, options)?;
        } else {
            index.extend_schema(schema)?;
        }
        Ok(())
    }
}

/// Adds the fields that the index lacks, and returns its resulting schema.
pub(super) fn extend(index: &Index, mapping: &Mapping) -> Result<SchemaConfig, Failure> {
    let manifest = index.manifest()?;
    let old = manifest.schema.as_deref().map(Schema::config);
    let schema = mapping.schema(old);
    if old != Some(&schema) {
        index.extend_schema(Schema::new(schema.clone()).map_err(Error::from)?)?;
    }
    Ok(schema)
}
