//! The errors of decoding.

/// An error in an encoded block or in the header of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The block ends before its values do.
    #[error("block is truncated")]
    Short,
    /// A bit width above 32.
    #[error("bit width {0} exceeds 32")]
    Width(u8),
    /// Documents exceed the range of ids.
    #[error("document ids overflow")]
    Overflow,
    /// Documents do not ascend.
    #[error("documents do not ascend")]
    Order,
    /// The first byte does not name a known encoding.
    #[error("{0} is not a known encoding")]
    Kind(u8),
    /// An exception is at a position outside the block or does not fit into 32 bits.
    #[error("an exception is out of range")]
    Exception,
    /// The header of the list is truncated, or belongs to another codec.
    #[error("the header of the list is malformed")]
    List,
}
