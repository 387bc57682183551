//! The types of attributes as numbers of the format.

use warpseek_text::AttributeKind;

/// One value of an attribute of a document.
pub type AttributeValue = warpseek_text::AttributeValue<'static>;

const CODES: [(AttributeKind, u8); 5] = [
    (AttributeKind::Keyword, 1),
    (AttributeKind::Integer, 2),
    (AttributeKind::Float, 3),
    (AttributeKind::Boolean, 4),
    (AttributeKind::Date, 5),
];

/// The number of a type.
pub(super) fn code(kind: AttributeKind) -> u8 {
    // Each type has one.
    CODES.iter().find(|(known, _)| *known == kind).map_or(0, |(_, code)| *code)
}

/// The type with a number.
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
