//! Self-contained HTML pages with measurements: tables and charts in one file.

mod escape;
pub(crate) mod html;
pub(crate) mod svg;
