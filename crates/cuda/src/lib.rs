//! The device layer, the only crate that calls a GPU's driver: memory, streams, graphs and
//! kernels, and in [`kernels`] the primitives that all GPU crates need. It knows nothing about
//! indexes and queries.
//!
//! There are three layers. `driver` and `nvrtc` are the raw functions. `Context` turns their
//! results into errors; it has the state of an open device and the locks. The public types above
//! it, of which each keeps the device open, are safe to use. Only launches are unsafe, because only
//! the caller knows what a kernel does with its arguments.
//!
//! ```text
//! let device = Device::open(0, None)?;              // or Device::emulated(...)
//! let stream = device.stream()?;
//! let words = device.upload(&stream, &[1u32, 2, 3])?;
//! let kernel = device.kernel(&SOURCE, "name")?;
//! let args = Args::new().buffer(&words).value(3u32);
//! unsafe { stream.launch(&kernel, Grid::new(blocks, threads), &args)? };
//! let result = stream.download(&words)?;
//! ```

mod allocation;
mod bounds;
mod buffer;
mod cache;
mod constant;
mod context;
mod driver;
mod error;
mod event;
mod freed;
mod graph;
mod info;
mod kernel;
pub mod kernels;
mod launch;
mod library;
mod lock;
mod module;
mod nvml;
mod nvrtc;
mod pinned;
mod queue;
mod source;
mod stream;
mod trace;
mod uploader;
mod wait;

pub use buffer::Buffer;
pub use cache::user_cache;
pub use context::{Device, MemoryUse};
pub use error::{DeviceError, Fault};
pub use event::Event;
pub use graph::Graph;
pub use info::{DeviceInfo, list_devices};
pub use kernel::Kernel;
pub use launch::{Args, Grid};
pub use library::Symbols;
pub use nvml::EnergyCounter;
pub use nvrtc::{Architecture, Compiler, Image};
pub use pinned::Pinned;
pub use source::Source;
pub use stream::Stream;
pub use trace::{Step, Trace};
pub use uploader::Uploader;
