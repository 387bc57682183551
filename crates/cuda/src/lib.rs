//! The device layer: the only crate that talks to a GPU's driver. Memory, streams, graphs and kernels, and in [`kernels`] the primitives that everybody
//! needs. It knows nothing of indexes and queries.
//!
//! Three layers: `driver` and `nvrtc` are the raw functions, `Context` turns their results into errors, the public types are safe to
//! use except for launches, where only the caller knows what a kernel does with its arguments.
//!
//! ```text
//! let device = Device::open(0, None)?;              // or Device::emulated(...)
//! let stream = device.stream()?;
//! let words = device.upload(&stream, &[1u32, 2, 3])?;
//! let kernel = device.kernel(&SOURCE, "name")?;
//! unsafe { stream.launch(&kernel, Grid::new(blocks, threads), Args::new().buffer(&words).value(3u32))? };
//! let result = stream.download(&words)?;
//! ```

mod cache;
mod context;
mod driver;
mod error;
mod event;
mod graph;
mod info;
mod kernel;
pub mod kernels;
mod launch;
mod library;
mod memory;
mod nvrtc;
mod source;
mod stream;
mod trace;
mod uploader;
mod wait;

pub use context::{Device, MemoryUse};
pub use error::{DeviceError, Fault};
pub use event::Event;
pub use graph::Graph;
pub use info::{DeviceInfo, list_devices};
pub use kernel::Kernel;
pub use launch::{Args, Grid};
pub use library::Symbols;
pub use memory::{Buffer, Pinned};
pub use nvrtc::{Architecture, Compiler, Image};
pub use source::Source;
pub use stream::Stream;
pub use trace::{Step, Trace};
pub use uploader::Uploader;
