//! Routes from paths in a record to the fields of a schema, as a tree of keys.

use std::collections::HashMap;

use super::FieldId;

/// A node in the tree of paths: a value that fields take, or an object with such values inside.
/// The root is the record itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    /// Path of this node, empty for the root.
    path: String,
    /// Fields that take the value.
    targets: Vec<FieldId>,
    /// Keys of the object. In a checked schema, a node never has both targets and keys.
    inner: HashMap<String, Route>,
}

impl Route {
    /// Adds a field that takes the value at `source`.
    pub(super) fn add(&mut self, source: &str, target: FieldId) {
        let mut route = self;
        for (at, part) in source.split('.').scan(0, |end, part| {
            *end += part.len() + 1;
            Some((*end - 1, part))
        }) {
            route = route.inner.entry(part.to_owned()).or_default();
            source[..at].clone_into(&mut route.path);
        }
        route.targets.push(target);
    }

    /// Returns the node of a key of the object. A key with dots also counts as a path, since
    /// writers of JSON differ in this.
    pub(crate) fn step(&self, key: &str) -> Option<&Route> {
        self.inner.get(key).or_else(|| {
            let mut parts = key.split('.');
            key.contains('.').then(|| parts.try_fold(self, |route, part| route.inner.get(part)))?
        })
    }

    /// Returns the fields that take the value.
    pub(crate) fn targets(&self) -> &[FieldId] {
        &self.targets
    }

    /// Returns true if the value must be an object.
    pub(crate) fn is_object(&self) -> bool {
        !self.inner.is_empty()
    }

    /// Returns the path, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the path of a key of the object.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}
