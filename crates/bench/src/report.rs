//! Pages that show measurements: tables and drawings in one file that needs nothing else.

pub(crate) mod html;
pub(crate) mod svg;
