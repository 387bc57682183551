//! The documents of an index and the settings for reading them.

use std::path::{Path, PathBuf};

use clap::Args;
use warpseek::{IndexOptions, Schema};
use warpseek_console::Failure;

use super::build_device::BuildDeviceOptions;
use super::inputs::Inputs;

/// The documents to read and the settings for reading them, for `index`, `add` and `cluster`.
#[derive(Args)]
pub(crate) struct Reading {
    #[command(flatten)]
    pub(crate) from: Inputs,
    /// Field with a static score, a number that `--static-weight` adds to the document's score
    #[arg(long, value_name = "FIELD", help_heading = "Input")]
    pub(crate) static_field: Option<String>,
    /// Place documents that share words next to each other (recursive graph bisection). The index
    /// is smaller and faster, but the build takes longer. Ids and results do not change
    #[arg(long, help_heading = "Index")]
    reorder: bool,
    /// Sort documents inside the index by this field: numbers by value, other values by bytes,
    /// documents without it last. `--reorder` starts from this order. Ids and results do not change
    #[arg(long, value_name = "FIELD", help_heading = "Index")]
    pub(crate) order_by: Option<String>,
    /// JSON file with the schema: text fields with separate statistics, and attributes. `warpseek
    /// schema` prints one for given documents
    #[arg(long, value_name = "FILE", help_heading = "Index")]
    pub(crate) schema: Option<PathBuf>,
    #[command(flatten)]
    build_device: BuildDeviceOptions,
}

impl Reading {
    pub(crate) fn options(&self) -> Result<IndexOptions, Failure> {
        let mut options = self.build_device.apply(self.from.options().reorder(self.reorder))?;
        if let Some(field) = &self.static_field {
            options = options.static_field(field);
        }
        if let Some(field) = &self.order_by {
            options = options.order_by(field);
        }
        if let Some(path) = &self.schema {
            options = options.schema(read_schema(path)?);
        }
        Ok(options)
    }
}

/// Reads a schema. Errors name its file.
fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let named =
        |problem: &dyn std::fmt::Display| Failure::user(format!("{}: {problem}", path.display()));
    let json = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    Schema::parse(&json).map_err(|error| named(&error))
}
