//! Where the values of a record go, by their path.

use std::collections::HashMap;

use super::FieldId;

/// What lies at one path of a record: a value that fields want, or an object with such values inside. The root is the record itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    /// The path, empty for the root.
    path: String,
    /// The fields that get the value.
    targets: Vec<FieldId>,
    /// What is in the object. A checked schema never has both.
    inner: HashMap<String, Route>,
}

impl Route {
    /// Sends the value at `source` to a field as well.
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

    /// What a key of the object leads to. A key with dots in it is taken for a path as well, since writers differ in this.
    pub(crate) fn step(&self, key: &str) -> Option<&Route> {
        self.inner.get(key).or_else(|| {
            let mut parts = key.split('.');
            key.contains('.').then(|| parts.try_fold(self, |route, part| route.inner.get(part)))?
        })
    }

    /// The fields that get the value.
    pub(crate) fn targets(&self) -> &[FieldId] {
        &self.targets
    }

    /// Whether an object is wanted here.
    pub(crate) fn is_object(&self) -> bool {
        !self.inner.is_empty()
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The path of a key of the object.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}
