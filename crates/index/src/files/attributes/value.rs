//! Types of attributes and their numbers in the file format.

use warpseek_text::AttributeKind;

/// A value of an attribute of a document.
pub type AttributeValue = warpseek_text::AttributeValue<'static>;

const CODES: [(AttributeKind, u8); 5] = [
    (AttributeKind::Keyword, 1),
    (AttributeKind::Integer, 2),
    (AttributeKind::Float, 3),
    (AttributeKind::Boolean, 4),
    (AttributeKind::Date, 5),
];

/// Returns the number of a type.
pub(super) fn code(kind: AttributeKind) -> u8 {
    // Every type has a number.
    CODES.iter().find(|(known, _)| *known == kind).map_or(0, |(_, code)| *code)
}

/// Returns the type with a number.
pub(super) fn kind_of(code: u8) -> Option<AttributeKind> {
    CODES.iter().find(|(_, known)| *known == code).map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_number_and_no_other_has() {
        for code_of in 0..=u8::MAX {
            assert_eq!(kind_of(code_of).map(code), (1..=5).contains(&code_of).then_some(code_of));
        }
    }
}
