//! The order of documents by the value of a field.

use std::cmp::Ordering;

/// Location of a key in the bytes; `None` if the record has none.
type Span = Option<(usize, u32)>;

/// The values of a field, one per document.
#[derive(Default)]
pub(crate) struct OrderKeys {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    present: u64,
}

impl OrderKeys {
    /// Appends the value of the next document.
    pub(crate) fn push(&mut self, key: Option<&str>) {
        self.spans.push(key.map(|key| (self.bytes.len(), key.len() as u32)));
        self.bytes.extend_from_slice(key.unwrap_or_default().as_bytes());
        self.present += u64::from(key.is_some());
    }

    /// Returns the number of documents with a value.
    pub(crate) fn present(&self) -> u64 {
        self.present
    }

    fn get(&self, span: Span) -> Option<&[u8]> {
        span.map(|(start, len)| &self.bytes[start..][..len as usize])
    }

    /// Sorts the ordinals by value: as numbers if all values are numbers, else by bytes.
    /// Documents without a value come last, and equal ones keep their order.
    pub(crate) fn sorted(&self) -> Vec<u32> {
        let mut ordinals: Vec<u32> = (0..self.spans.len() as u32).collect();
        let keys = || self.spans.iter().map(|&span| self.get(span));
        let numbers: Option<Vec<Option<f64>>> =
            keys().map(|key| key.map_or(Some(None), |k| number(k).map(Some))).collect();
        match numbers {
            Some(numbers) => ordinals.sort_by(|&a, &b| {
                missing_last(numbers[a as usize], numbers[b as usize], |a, b| a.total_cmp(&b))
            }),
            None => {
                let key = |ordinal: u32| self.get(self.spans[ordinal as usize]);
                ordinals.sort_by(|&a, &b| missing_last(key(a), key(b), Ord::cmp));
            }
        }
        ordinals
    }
}

fn number(key: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(key).ok()?.parse().ok()?;
    // Adding zero turns the negative zero into the positive one.
    number.is_finite().then_some(number + 0.0)
}

fn missing_last<T>(a: Option<T>, b: Option<T>, order: impl Fn(T, T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => order(a, b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::OrderKeys;

    fn sorted(values: &[Option<&str>]) -> Vec<u32> {
        let mut keys = OrderKeys::default();
        values.iter().for_each(|&value| keys.push(value));
        assert_eq!(keys.present(), values.iter().flatten().count() as u64);
        keys.sorted()
    }

    #[test]
    fn numbers_by_value_and_others_by_bytes() {
        assert_eq!(sorted(&[Some("10"), Some("9"), Some("-1e2"), Some("0.5")]), [2, 3, 1, 0]);
        assert_eq!(sorted(&[Some("10"), Some("9"), Some("x")]), [0, 1, 2]);
        assert_eq!(sorted(&[Some("b"), Some("é"), Some("B"), Some("")]), [3, 2, 0, 1]);
        // No number for our purpose.
        assert_eq!(sorted(&[Some("nan"), Some("9"), Some("10")]), [2, 1, 0]);
    }

    #[test]
    fn missing_ones_last_and_equal_ones_as_they_were() {
        assert_eq!(sorted(&[None, Some("2"), None, Some("1"), Some("2.0")]), [3, 1, 4, 0, 2]);
        assert_eq!(sorted(&[Some("b"), None, Some("a"), Some("b")]), [2, 0, 3, 1]);
        assert_eq!(sorted(&[Some("0"), Some("-0"), Some("-1")]), [2, 0, 1]);
        assert_eq!(sorted(&[None, None]), [0, 1]);
    }
}
