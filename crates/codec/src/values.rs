//! Chunks of numbers other than postings: a width, and slots of that width
//! (docs/reference/formats/positions.md).

use warpseek_core::limits::BLOCK;

use crate::slots;
use crate::varint::{self, Cursor};

/// Chunks of fewer values than this are stored as varints.
const FEW: usize = 8;

/// Encodes up to [`BLOCK`] values and appends them to `out`.
pub fn write(values: &[u32], out: &mut Vec<u8>) {
    if values.len() < FEW {
        return values.iter().for_each(|&value| varint::write(out, u64::from(value)));
    }
    let width = slots::width(values);
    out.push(width as u8);
    slots::pack(values, width, out);
}

/// Skips a chunk of [`BLOCK`] values. Returns `None` if the bytes do not start with one.
#[inline]
pub fn skip(cursor: &mut Cursor<'_>) -> Option<()> {
    let width = cursor.byte().filter(|&width| width <= 32)?;
    cursor.take(slots::packed_bytes(BLOCK, u32::from(width))).map(|_| ())
}

/// Reads a chunk of `n` values, at most [`BLOCK`], to the front of `out`. Returns `None` if the
/// bytes do not start with such a chunk.
pub fn read(cursor: &mut Cursor<'_>, n: usize, out: &mut [u32; BLOCK]) -> Option<()> {
    if n < FEW {
        for slot in &mut out[..n] {
            *slot = cursor.varint32()?;
        }
        return Some(());
    }
    let width = u32::from(cursor.byte().filter(|&width| width <= 32)?);
    let bytes = slots::take(cursor, width, n).ok()?;
    slots::unpack(bytes, width, n, out);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            values in (0u32..=32).prop_flat_map(|width| {
                let most = ((1u64 << width) - 1) as u32;
                proptest::collection::vec(0..=most, 0..=BLOCK)
            }),
            rest in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            let mut bytes = Vec::new();
            write(&values, &mut bytes);
            let len = bytes.len();
            bytes.extend(&rest);
            let (mut cursor, mut out) = (Cursor::new(&bytes), [0; BLOCK]);
            prop_assert!(read(&mut cursor, values.len(), &mut out).is_some());
            prop_assert_eq!(&out[..values.len()], &values[..]);
            prop_assert_eq!(cursor.rest(), &rest[..]);
            if values.len() == BLOCK {
                let mut cursor = Cursor::new(&bytes);
                prop_assert!(skip(&mut cursor).is_some());
                prop_assert_eq!(cursor.rest(), &rest[..]);
            }
            if len > 0 {
                prop_assert!(read(&mut Cursor::new(&bytes[..len - 1]), values.len(), &mut out).is_none());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600), n in 0..=BLOCK) {
            let _ = read(&mut Cursor::new(&bytes), n, &mut [0; BLOCK]);
            let _ = skip(&mut Cursor::new(&bytes));
        }
    }
}
