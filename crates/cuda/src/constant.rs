//! Constants of kernels, read from their sources when Rust is compiled, so that host and device
//! cannot disagree.

use super::Source;

impl Source {
    /// Returns the value of the constant that the source or one of its headers defines as
    /// `constexpr uint32_t NAME = VALUE;`. The value may consist of numbers, other constants,
    /// parentheses, and the operators `<<`, `+`, `-`, `*` and `/`.
    ///
    /// It is meant for the values of Rust constants, where a name without a definition is an error
    /// at compile time.
    ///
    /// # Panics
    /// Panics if there is no such definition.
    pub const fn constant(&self, name: &str) -> u32 {
        self.value_of_name(name.as_bytes())
    }

    const fn value_of_name(&self, name: &[u8]) -> u32 {
        if let Some(value) = self.value_in(self.text.as_bytes(), name) {
            return value;
        }
        let mut header = 0;
        while header < self.headers.len() {
            if let Some(value) = self.value_in(self.headers[header].1.as_bytes(), name) {
                return value;
            }
            header += 1;
        }
        panic!("the source has no constant of this name");
    }

    /// Returns the value of a constant that this text defines.
    const fn value_in(&self, text: &[u8], name: &[u8]) -> Option<u32> {
        const BEFORE: &[u8] = b"\nconstexpr uint32_t ";
        let mut at = 0;
        while at + BEFORE.len() + name.len() < text.len() {
            if text[at] == b'\n' && is_at(text, at, BEFORE) {
                let after = at + BEFORE.len() + name.len();
                if is_at(text, at + BEFORE.len(), name) && is_at(text, after, b" = ") {
                    let (value, end) = self.shift(text, after + 3);
                    assert!(text[end] == b';', "the constant's value is not understood");
                    return Some(value);
                }
            }
            at += 1;
        }
        None
    }

    /// Returns the value of the expression that begins at a position, and the position behind it.
    const fn shift(&self, text: &[u8], at: usize) -> (u32, usize) {
        let (mut value, mut at) = self.sum(text, at);
        while is_at(text, at, b" << ") {
            let (bits, end) = self.sum(text, at + 4);
            (value, at) = (value << bits, end);
        }
        (value, at)
    }

    const fn sum(&self, text: &[u8], at: usize) -> (u32, usize) {
        let (mut value, mut at) = self.product(text, at);
        loop {
            let (is_sum, is_difference) = (is_at(text, at, b" + "), is_at(text, at, b" - "));
            if !is_sum && !is_difference {
                return (value, at);
            }
            let (other, end) = self.product(text, at + 3);
            (value, at) = (if is_sum { value + other } else { value - other }, end);
        }
    }

    const fn product(&self, text: &[u8], at: usize) -> (u32, usize) {
        let (mut value, mut at) = self.atom(text, at);
        loop {
            let (is_product, is_quotient) = (is_at(text, at, b" * "), is_at(text, at, b" / "));
            if !is_product && !is_quotient {
                return (value, at);
            }
            let (other, end) = self.atom(text, at + 3);
            (value, at) = (if is_product { value * other } else { value / other }, end);
        }
    }

    /// Returns the value of a number, a name, or an expression in parentheses.
    const fn atom(&self, text: &[u8], at: usize) -> (u32, usize) {
        if text[at] == b'(' {
            let (value, end) = self.shift(text, at + 1);
            assert!(text[end] == b')', "the constant's value is not understood");
            return (value, end + 1);
        }
        let mut end = at;
        while text[end].is_ascii_alphanumeric() || text[end] == b'_' {
            end += 1;
        }
        let (before, _) = text.split_at(end);
        let (_, word) = before.split_at(at);
        assert!(!word.is_empty(), "the constant's value is not understood");
        (if word[0].is_ascii_digit() { number(word) } else { self.value_of_name(word) }, end)
    }
}

/// Returns true if a text has these bytes at a position.
const fn is_at(text: &[u8], at: usize, bytes: &[u8]) -> bool {
    if at + bytes.len() > text.len() {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        if text[at + i] != bytes[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Returns the value of a decimal or hexadecimal number, which may end with `u`.
const fn number(word: &[u8]) -> u32 {
    let (base, mut at) = if is_at(word, 0, b"0x") { (16, 2) } else { (10, 0) };
    let mut value: u32 = 0;
    while at < word.len() && word[at] != b'u' {
        let digit = match word[at] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' if base == 16 => digit - b'a' + 10,
            _ => panic!("the constant's value is not a number"),
        };
        value = value * base + digit as u32;
        at += 1;
    }
    assert!(at >= word.len() - 1, "the constant's value is not a number");
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source = Source {
        name: "test",
        text: "
// constexpr uint32_t NO = 1;
constexpr uint32_t THREADS = 256;
constexpr uint32_t TILE = THREADS * (ITEMS + 1) - 0x10u;
constexpr uint32_t BITS = 1u << 3 + 2;
// of a key
constexpr uint32_t KEYS = THREADS % 3;
constexpr uint32_t TILES = 2;
",
        headers: &[
            ("a.cuh", "// one\n"),
            ("b.cuh", "#pragma once\nconstexpr uint32_t ITEMS = 9;\n"),
        ],
    };
    const TILE: u32 = SOURCE.constant("TILE");

    #[test]
    fn constants_are_found_in_texts_and_headers() {
        assert_eq!((SOURCE.constant("THREADS"), SOURCE.constant("ITEMS")), (256, 9));
        assert_eq!((TILE, SOURCE.constant("TILES")), (256 * 10 - 16, 2));
        assert_eq!(SOURCE.constant("BITS"), 32, "sums come before shifts, as in C++");
    }

    #[test]
    #[should_panic(expected = "no constant of this name")]
    fn a_constant_must_be_defined() {
        SOURCE.constant("NO");
    }

    #[test]
    #[should_panic(expected = "not understood")]
    fn other_expressions_are_refused() {
        SOURCE.constant("KEYS");
    }
}
