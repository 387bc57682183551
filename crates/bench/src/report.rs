//! Pages that show measurements: tables and charts in one file that needs nothing else.

pub(crate) mod html;
pub(crate) mod svg;
