//! The arrays of a dictionary in device memory.

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Stream};

use crate::dictionary::Dictionary;
use crate::layout::{Child, Node};

/// The arrays of a dictionary in device memory, as kernels receive them.
#[derive(Debug, Clone)]
pub(crate) struct DeviceArrays {
    nodes: Buffer<Node>,
    children: Buffer<Child>,
    buckets: Buffer<u8>,
    words: u32,
}

/// The argument of kernels. It must equal `Dictionary` in `dictionary.cuh`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct OnDevice {
    nodes: u64,
    children: u64,
    buckets: u64,
    words: u32,
    unused: u32,
}

impl DeviceArrays {
    /// Copies the arrays of a dictionary to a device.
    pub(crate) fn upload(
        device: &Device,
        stream: &Stream,
        dictionary: &Dictionary,
    ) -> Result<Self, DeviceError> {
        Ok(DeviceArrays {
            nodes: device.upload(stream, &dictionary.nodes)?,
            children: device.upload(stream, &dictionary.children)?,
            buckets: device.upload(stream, &dictionary.buckets)?,
            words: dictionary.len(),
        })
    }

    /// Returns the number of words.
    pub(crate) fn words(&self) -> u32 {
        self.words
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.nodes.bytes() + self.children.bytes() + self.buckets.bytes()) as u64
    }

    /// Adds the arrays to the arguments of a kernel, which keep their memory alive.
    pub(crate) fn add_to(&self, args: Args) -> Args {
        let argument = OnDevice {
            nodes: self.nodes.address(),
            children: self.children.address(),
            buckets: self.buckets.address(),
            words: self.words,
            unused: 0,
        };
        args.value(argument).keep(&self.nodes).keep(&self.children).keep(&self.buckets)
    }
}
