//! The features of plans that engines may or may not support.

use crate::plan::Plan;

/// The features of plans that an engine supports beyond words of one field over all live
/// documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// Set if the engine supports a [`Mask`](crate::Mask).
    pub masks: bool,
    /// Set if the engine supports terms of several text fields, each with its own formula and
    /// lengths. Other engines only get plans with a single formula.
    pub fields: bool,
    /// Set if the engine supports a [tree](Plan::needed_tree) whose scores are not sums of
    /// contributions.
    pub trees: bool,
    /// Set if the engine supports a [`Gather`](crate::gather::Gather).
    pub gathers: bool,
}

impl Takes {
    /// All features.
    pub const ALL: Takes = Takes { masks: true, fields: true, trees: true, gathers: true };

    /// Returns the features that both engines support, for an engine that is composed of others.
    pub fn and(self, other: Takes) -> Takes {
        Takes {
            masks: self.masks && other.masks,
            fields: self.fields && other.fields,
            trees: self.trees && other.trees,
            gathers: self.gathers && other.gathers,
        }
    }
}

/// Reason given by engines that do not support several text fields.
pub(crate) const SEVERAL_FIELDS: &str = "it does not search indexes with several text fields";

impl Plan {
    /// Returns the reason why an engine that supports only these features cannot answer the plan,
    /// if there is one.
    pub fn beyond(&self, takes: Takes) -> Option<&'static str> {
        if self.mask.is_some() && !takes.masks {
            return Some("it does not filter documents");
        }
        if self.formulas.fields() > 1 && !takes.fields {
            return Some(SEVERAL_FIELDS);
        }
        if self.needed_tree().is_some() && !takes.trees {
            return Some("it only answers queries whose score is the sum of their words' scores");
        }
        if self.gather.is_some() && !takes.gathers {
            return Some("it neither sorts by attributes nor counts by them");
        }
        None
    }
}
