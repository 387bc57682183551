//! LEB128 integers, and a cursor over untrusted bytes that never reads past their end.

/// Appends `value` with seven bits per byte, low bits first.
#[inline]
pub fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the number of bytes that [`write()`] takes for `value`.
pub fn len(value: u32) -> usize {
    (32 - value.leading_zeros()).max(1).div_ceil(7) as usize
}

/// A position in bytes that may be truncated or forged. It only moves forward.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes }
    }

    /// Returns the bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the next `n` bytes, or returns `None` if there are fewer.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(n)?;
        self.bytes = rest;
        Some(head)
    }

    /// Reads the next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// Reads a little-endian 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Reads a little-endian 64-bit number.
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Reads a varint of up to 64 bits, or returns `None` if it is truncated or too large.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a varint that must fit into 32 bits.
    #[inline]
    pub fn varint32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(values in proptest::collection::vec(any::<u64>().prop_flat_map(|v| (0u32..64).prop_map(move |s| v >> s)), 0..50)) {
            let mut bytes = Vec::new();
            for &v in &values {
                let before = bytes.len();
                write(&mut bytes, v);
                prop_assert!(v > u64::from(u32::MAX) || bytes.len() - before == len(v as u32));
            }
            let mut cursor = Cursor::new(&bytes);
            for &v in &values {
                prop_assert_eq!(cursor.varint(), Some(v));
            }
            prop_assert!(cursor.rest().is_empty());
            prop_assert_eq!(cursor.varint(), None);
        }

        #[test]
        fn reading_arbitrary_bytes_terminates(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.varint().is_some() {}
        }
    }

    #[test]
    fn too_large_numbers_are_refused() {
        assert_eq!(Cursor::new(&[0xff; 11]).varint(), None);
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint32(), None);
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint32(), Some(u32::MAX));
    }
}
