//! Options for the expression that selects a request's indexes.

use std::sync::Arc;

use crate::app::App;
use crate::elasticsearch::unsupported::missing_index;
use crate::error::Failure;
use crate::http::params::Params;
use crate::indexes::open_index::OpenIndex;

/// The options `ignore_unavailable`, `allow_no_indices` and `expand_wildcards`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Naming {
    /// True if unknown names are skipped.
    pub(super) is_lenient: bool,
    /// True if every pattern must match an index.
    pub(super) needs_some: bool,
    /// True if patterns match nothing.
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

    /// Returns the indexes that an expression selects.
    pub(super) fn select(
        self,
        app: &App,
        expression: &str,
    ) -> Result<Vec<Arc<OpenIndex>>, Failure> {
        if !self.needs_some && !self.is_literal {
            return app.catalogue().select(expression, self.is_lenient);
        }
        let mut selected: Vec<Arc<OpenIndex>> = Vec::new();
        for part in expression.split(',') {
            // An empty expression selects everything; an empty part between commas is an error.
            if part.is_empty() && !expression.is_empty() {
                return Err(missing_index(part));
            }
            let is_pattern = matches!(part, "_all" | "") || part.contains('*');
            let found = match is_pattern && self.is_literal {
                true => Vec::new(),
                false => app.catalogue().select(part, self.is_lenient)?,
            };
            if is_pattern && self.needs_some && found.is_empty() {
                return Err(missing_index(if part.is_empty() { "_all" } else { part }));
            }
            for index in found {
                if selected.iter().all(|known| known.name != index.name) {
                    selected.push(index);
                }
            }
        }
        Ok(selected)
    }
}
