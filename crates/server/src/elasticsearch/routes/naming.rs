//! How a request understands the expression that names its indexes.

use std::sync::Arc;

use crate::app::App;
use crate::error::Failure;
use crate::http::params::Params;
use crate::indexes::open_index::Collection;

/// The options `ignore_unavailable`, `allow_no_indices` and `expand_wildcards`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Naming {
    /// Whether names without an index are passed over.
    pub(super) is_lenient: bool,
    /// Whether every pattern must match an index.
    pub(super) needs_some: bool,
    /// Whether patterns stand for nothing.
    pub(super) is_literal: bool,
}

impl Naming {
    pub(super) fn of(params: &Params) -> Self {
        Naming {
            is_lenient: params.flag("ignore_unavailable"),
            needs_some: params.get("allow_no_indices") == Some("false"),
            is_literal: params.get("expand_wildcards") == Some("none"),
        }
    }

    /// The indexes that an expression names.
    pub(super) fn select(
        self,
        app: &App,
        expression: &str,
    ) -> Result<Vec<Arc<Collection>>, Failure> {
        if !self.needs_some && !self.is_literal {
            return app.catalogue().select(expression, self.is_lenient);
        }
        let mut selected: Vec<Arc<Collection>> = Vec::new();
        for part in expression.split(',') {
            // Nothing at all stands for everything; nothing between commas does not.
            if part.is_empty() && !expression.is_empty() {
                return Err(Failure::no_index(part));
            }
            let is_pattern = matches!(part, "_all" | "") || part.contains('*');
            let found = match is_pattern && self.is_literal {
                true => Vec::new(),
                false => app.catalogue().select(part, self.is_lenient)?,
            };
            if is_pattern && self.needs_some && found.is_empty() {
                return Err(Failure::no_index(if part.is_empty() { "_all" } else { part }));
            }
            for of in found {
                if selected.iter().all(|known| known.name != of.name) {
                    selected.push(of);
                }
            }
        }
        Ok(selected)
    }
}
