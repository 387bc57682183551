//! Options for opening an index.

/// Options for opening an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// True to map files into memory. Default: true.
    ///
    /// A mapped index opens quickly, and its pages are read as searches need them. However, if
    /// any process truncates a file while it is mapped, the operating system ends this process
    /// with SIGBUS. If this option is off, opening reads all files into memory, and later changes
    /// to the files have no effect.
    pub mmap: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { mmap: true }
    }
}
