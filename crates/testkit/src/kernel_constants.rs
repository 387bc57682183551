//! Constants of kernels and sizes of their structures, read from the CUDA C++ source, for tests
//! that compare them with those of the host.

use std::collections::HashMap;

/// The constants that the source of a kernel and its headers define: `constexpr` numbers,
/// enumerators, and macros without parameters. Values are integers, which may be computed from
/// other constants and sizes with `+`, `-`, `*`, `/`, `%`, `<<` and `|`.
pub struct KernelConstants {
    /// The source and all headers, without comments.
    text: String,
    /// The expressions by name. A name may have several, defined in different scopes.
    expressions: HashMap<String, Vec<String>>,
}

impl KernelConstants {
    /// Reads the constants of a kernel (`SOURCE.text`) and its headers (`SOURCE.headers`), which
    /// are pairs of name and text.
    pub fn of(kernel: &str, headers: &[(&str, &str)]) -> Self {
        let texts = std::iter::once(kernel).chain(headers.iter().map(|(_, text)| *text));
        let text = texts.map(without_comments).collect();
        let mut constants = KernelConstants { text, expressions: HashMap::new() };
        constants.read();
        constants
    }

    /// Returns the value of a constant.
    ///
    /// # Panics
    /// Panics if the constant is not defined, if it is defined with different values, or if its
    /// value cannot be evaluated to an integer.
    pub fn get(&self, name: &str) -> u64 {
        let expressions = self.expressions.get(name).map_or(&[][..], Vec::as_slice);
        let mut values = expressions.iter().map(|expression| self.value(name, expression));
        let Some(first) = values.next() else { panic!("the kernel has no constant {name}") };
        assert!(values.all(|other| other == first), "the kernel has several constants {name}");
        first
    }

    /// Returns the size in bytes of a type: a number, a pointer, or a structure of these.
    ///
    /// # Panics
    /// Panics if the type is not defined.
    pub fn size_of(&self, name: &str) -> usize {
        self.layout(name).0
    }

    /// Returns the size and the alignment of a type.
    fn layout(&self, name: &str) -> (usize, usize) {
        match name.trim().trim_start_matches("const ") {
            name if name.ends_with('*') => (8, 8),
            "uint8_t" | "bool" => (1, 1),
            "uint16_t" => (2, 2),
            "uint32_t" | "int" | "float" => (4, 4),
            "uint64_t" | "unsigned long long" | "uint2" => (8, 8),
            "uint4" => (16, 16),
            name => self.layout_of_structure(name),
        }
    }

    fn layout_of_structure(&self, name: &str) -> (usize, usize) {
        let body = after_words(&self.text, "struct").find_map(|rest| {
            let (head, body) = rest.split_once('{')?;
            (head.split_whitespace().next_back() == Some(name)).then(|| declarations(body))
        });
        let Some(body) = body else { panic!("the kernel has no type {name}") };
        let (mut size, mut alignment) = (0usize, 1);
        // A declaration with parentheses is a function.
        let is_field = |field: &&str| !field.contains('(') && !field.starts_with("static ");
        for field in body.split(';').map(str::trim).filter(is_field) {
            let field = field.split('=').next().unwrap_or_default().trim();
            // A declaration has a type and one or more names, separated by commas.
            let names = field.split(',').next().and_then(|first| first.rfind([' ', '*']));
            let Some(names) = names else { continue };
            let (kind, names) = field.split_at(names + 1);
            let (each, aligned) = self.layout(kind);
            for name in names.split(',') {
                let dimensions = name.split('[').skip(1);
                let len = |dimension: &str| self.value(name, dimension.trim_end_matches(']'));
                let count = dimensions.map(len).product::<u64>() as usize;
                size = size.next_multiple_of(aligned) + count * each;
            }
            alignment = alignment.max(aligned);
        }
        (size.next_multiple_of(alignment), alignment)
    }

    fn read(&mut self) {
        let text = self.text.clone();
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("#define ")) {
            if let Some((name, value)) = line.trim().split_once(' ')
                && !name.contains('(')
            {
                self.define(name, value);
            }
        }
        for rest in after_words(&text, "constexpr") {
            let declaration = rest.split(';').next().unwrap_or_default();
            for part in declaration.split(',') {
                if let Some((name, value)) = part.split_once('=') {
                    let name = name.split_whitespace().next_back().unwrap_or_default();
                    self.define(name, value);
                }
            }
        }
        for rest in after_words(&text, "enum") {
            let body = rest.split_once('{').and_then(|(_, body)| body.split_once('}'));
            let mut next = "0".to_owned();
            for enumerator in body.map_or("", |(body, _)| body).split(',') {
                let (name, value) = match enumerator.split_once('=') {
                    Some((name, value)) => (name, value.to_owned()),
                    None => (enumerator, next),
                };
                self.define(name.trim(), &value);
                next = format!("({value}) + 1");
            }
        }
    }

    fn define(&mut self, name: &str, value: &str) {
        self.expressions.entry(name.to_owned()).or_default().push(value.trim().to_owned());
    }

    fn value(&self, name: &str, expression: &str) -> u64 {
        let mut parser = Parser { constants: self, rest: expression };
        let value = parser.binary(0).filter(|_| parser.rest.trim().is_empty());
        value.unwrap_or_else(|| panic!("the value of {name} is not understood: {expression}"))
    }
}

/// The operators by precedence, lowest first. Those in one row have the same precedence.
const OPERATORS: [&[&str]; 4] = [&["|"], &["<<"], &["+", "-"], &["*", "/", "%"]];

struct Parser<'a> {
    constants: &'a KernelConstants,
    rest: &'a str,
}

impl Parser<'_> {
    fn binary(&mut self, level: usize) -> Option<u64> {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut value = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.take(operator)) {
            let right = self.binary(level + 1)?;
            value = match *operator {
                "|" => value | right,
                "<<" => value.checked_shl(u32::try_from(right).ok()?)?,
                "+" => value.checked_add(right)?,
                "-" => value.checked_sub(right)?,
                "*" => value.checked_mul(right)?,
                "/" => value.checked_div(right)?,
                _ => value.checked_rem(right)?,
            };
        }
        Some(value)
    }

    fn operand(&mut self) -> Option<u64> {
        if self.take("(") {
            let value = self.binary(0)?;
            return self.take(")").then_some(value);
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.rest = rest;
        if word == "sizeof" {
            let (name, rest) = self.rest.strip_prefix('(')?.split_once(')')?;
            self.rest = rest;
            return Some(self.constants.size_of(name) as u64);
        }
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(self.constants.get(word));
        }
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

/// Returns the text after each occurrence of a whole word.
fn after_words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).filter_map(move |(at, _)| {
        let rest = &text[at + word.len()..];
        (!text[..at].ends_with(is_part) && !rest.starts_with(is_part)).then_some(rest)
    })
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the declarations in the body of a structure, each ended by a semicolon, without the
/// bodies of functions.
fn declarations(body: &str) -> String {
    let (mut depth, mut text) = (0, String::new());
    for c in body.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => {
                depth -= 1;
                text.push(';');
            }
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "
        constexpr uint32_t LANES = 32;  // constexpr uint32_t NONE = 7;
        #define WARPS 10
        #define KERNEL(name) constexpr uint32_t name##_LEN = 1;
    ";
    const KERNEL: &str = "
        constexpr uint32_t THREADS = WARPS * LANES, MASK = (1u << 4) - 1,
                           SLOW = 1u << 20 | 0x0Fu;
        enum Form : uint32_t { ONE, SHORT = 4, SPARSE };
        enum : uint32_t { FIRST, SECOND };
        struct Head {
            uint8_t form;
            Form of() const { return Form(form); }
            uint32_t low, high = 3;
            const uint8_t* names[2];
            __device__ Head() : form(0) {}
            static constexpr uint64_t MOST = 7 + 2 * 3 % 4;
        };
        struct alignas(16) List { Head heads[LANES]; uint2 pairs[2][SPARSE]; float x; };
        constexpr uint32_t HEAD_WORDS = sizeof(Head) / sizeof(uint32_t);
        void a() { constexpr uint32_t TWICE = 1; }
        void b() { constexpr uint32_t TWICE = 2; }
    ";

    fn constants() -> KernelConstants {
        KernelConstants::of(KERNEL, &[("header.cuh", HEADER)])
    }

    #[test]
    fn constants_are_computed_from_others() {
        let values = [
            ("LANES", 32),
            ("WARPS", 10),
            ("THREADS", 320),
            ("MASK", 15),
            ("SLOW", (1 << 20) + 15),
            ("ONE", 0),
            ("SHORT", 4),
            ("SPARSE", 5),
            ("FIRST", 0),
            ("SECOND", 1),
            ("MOST", 9),
            ("HEAD_WORDS", 8),
        ];
        for (name, value) in values {
            assert_eq!(constants().get(name), value, "{name}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_fields() {
        assert_eq!(constants().size_of("Head"), 32);
        assert_eq!(constants().size_of("List"), 32 * 32 + 2 * 5 * 8 + 8);
        assert_eq!(constants().size_of("unsigned long long"), 8);
    }

    #[test]
    #[should_panic(expected = "no constant NONE")]
    fn comments_define_nothing() {
        constants().get("NONE");
    }

    #[test]
    #[should_panic(expected = "several constants TWICE")]
    fn a_name_with_two_values_is_refused() {
        constants().get("TWICE");
    }
}
