//! A dictionary on a device.

use warpseek_cuda::{Args, Buffer, Device, DeviceError, Stream};

use crate::arrays::DeviceArrays;
use crate::dictionary::Dictionary;
use crate::kernels::dictionary_look_up::{LookUp, Words};

/// A dictionary in device memory, and the kernels that look up words in it. Kernels of other
/// crates include `dictionary.cuh`
/// ([`kernels::common::DICTIONARY`](crate::kernels::common::DICTIONARY)) and receive the
/// dictionary through [`add_to`](Self::add_to).
#[derive(Debug, Clone)]
pub struct DeviceDictionary {
    arrays: DeviceArrays,
    kernels: LookUp,
}

impl DeviceDictionary {
    /// Copies a dictionary to a device and compiles the kernels.
    pub fn upload(
        device: &Device,
        stream: &Stream,
        dictionary: &Dictionary,
    ) -> Result<Self, DeviceError> {
        Ok(DeviceDictionary {
            arrays: DeviceArrays::upload(device, stream, dictionary)?,
            kernels: LookUp::new(device)?,
        })
    }

    /// Returns the id of all unknown words, which is the number of words.
    pub fn unknown(&self) -> u32 {
        self.arrays.words()
    }

    /// Returns the size of the arrays in device memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.arrays.bytes()
    }

    /// Adds the dictionary to the arguments of a kernel that takes a `Dictionary` at this
    /// position. The arguments keep its memory alive until the kernel has ended.
    #[must_use]
    pub fn add_to(&self, args: Args) -> Args {
        self.arrays.add_to(args)
    }

    /// Writes the id of each word to `ids`, or [`unknown`](Self::unknown).
    ///
    /// # Panics
    /// Panics if the lengths of `starts`, `ends` and `ids` differ, or are not below 2^31.
    pub fn look_up(
        &self,
        stream: &Stream,
        words: Words<'_>,
        ids: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        self.kernels.words(stream, &self.arrays, words, ids)
    }

    /// Writes the range of ids of the words with each prefix: the first id, and the one after the
    /// last. If no word has the prefix, the range is empty.
    ///
    /// # Panics
    /// Panics under the conditions of [`look_up`](Self::look_up).
    pub fn prefix(
        &self,
        stream: &Stream,
        prefixes: Words<'_>,
        ids: &Buffer<[u32; 2]>,
    ) -> Result<(), DeviceError> {
        self.kernels.prefixes(stream, &self.arrays, prefixes, ids)
    }
}
