//! Self-contained HTML pages with measurements: tables and charts in one file.

mod colours;
mod escape;
pub(crate) mod html;
pub mod svg;
