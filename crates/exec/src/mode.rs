//! Modes: the condition that a document's terms must meet.

use std::fmt;
use std::str::FromStr;

/// The condition on the terms of a matching document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Matches documents with at least one of the terms.
    #[default]
    Or,
    /// Matches documents with all of the terms. If a term is in no document, nothing matches.
    And,
    /// Behaves like `And`, or like `Or` if `And` gives fewer than k hits.
    AndOr,
}

impl Mode {
    /// The names that `FromStr` accepts.
    pub const NAMES: [&'static str; 3] = ["or", "and", "and-or"];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "or" => Ok(Mode::Or),
            "and" => Ok(Mode::And),
            "and-or" => Ok(Mode::AndOr),
            _ => {
                let names = Self::NAMES.join(", ");
                Err(format!("unknown mode `{name}`; expected one of: {names}"))
            }
        }
    }
}
