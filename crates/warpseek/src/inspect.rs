//! Reports on an index: its contents, the space that its parts take, and problems that a
//! verification found.

pub use warpseek_exec::ShapeClass;
pub use warpseek_index::{
    AttributeInspection, Content, FieldInspection, Inspection, PartSizes, Problem, Verification,
};
