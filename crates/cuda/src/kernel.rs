//! Kernels: functions of a compiled source, with the limits of their launches.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CString, c_int};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::driver::{Driver, Handle, function_attribute};
use super::lock::lock;
use super::module::Module;
use super::{Args, Device, DeviceError, Grid, Source};

/// Maximum dynamic shared memory of a block without setting an attribute.
const SHARED_BY_DEFAULT: u32 = 48 << 10;

/// A function that runs on the device.
#[derive(Clone)]
pub struct Kernel {
    device: Device,
    pub(crate) raw: Handle,
    pub(crate) name: Arc<str>,
    max_threads: u32,
    static_shared: u32,
    registers: u32,
    local_bytes: u32,
    /// Sizes of the parameters, if the driver reports them.
    parameters: Option<Arc<[usize]>>,
    /// Dynamic shared memory that the kernel is allowed so far.
    shared: Arc<AtomicU32>,
    /// Number of blocks that a multiprocessor runs, by threads and shared memory. It is cached
    /// because the driver takes a while to answer.
    fits: Arc<Mutex<HashMap<(u32, u32), u32>>>,
}

// SAFETY: the driver accepts its functions from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as for `Send`.
unsafe impl Sync for Kernel {}

impl Device {
    /// Returns a kernel of a source. The source is compiled when one of its kernels is first
    /// requested.
    pub fn kernel(&self, source: &Source, name: &str) -> Result<Kernel, DeviceError> {
        let context = &*self.0;
        // The lock is held while compiling, so that nothing is compiled twice.
        let mut modules = lock(&context.modules);
        // The key is the text: the same source may be combined with only the part of a header
        // that it needs.
        let module = match modules.entry(source.hash(&[])) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let image = context.image(&source.as_wanted()?)?;
                context.bind()?;
                entry.insert(Module::load(&context.driver, context.info.cuda, &image)?)
            }
        };
        Kernel::new(self, module, name)
    }
}

impl Kernel {
    fn new(device: &Device, module: &Module, name: &str) -> Result<Self, DeviceError> {
        let driver = &device.0.driver;
        device.0.bind()?;
        let launch = |problem: &str| DeviceError::Launch {
            kernel: name.to_owned(),
            problem: problem.to_owned(),
        };
        let text = CString::new(name).map_err(|_| launch("its name contains a zero byte"))?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid pointer, a loaded module, and a string that ends with a zero.
        let status = unsafe { (driver.cuModuleGetFunction)(&mut raw, module.0, text.as_ptr()) };
        if status != 0 {
            return Err(launch(&format!(
                "its source has no kernel of this name: {}",
                driver.words(status)
            )));
        }
        let get = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: a valid pointer, and a function that the driver returned.
            let status = unsafe { (driver.cuFuncGetAttribute)(&mut value, attribute, raw) };
            driver.check("cuFuncGetAttribute", status).map(|()| value.max(0) as u32)
        };
        Ok(Kernel {
            device: device.clone(),
            raw,
            name: name.into(),
            max_threads: get(function_attribute::MAX_THREADS)?,
            static_shared: get(function_attribute::STATIC_SHARED)?,
            registers: get(function_attribute::REGISTERS)?,
            local_bytes: get(function_attribute::LOCAL_BYTES)?,
            parameters: parameters(driver, raw),
            shared: Arc::new(AtomicU32::new(SHARED_BY_DEFAULT)),
            fits: Arc::default(),
        })
    }

    /// Returns the name of the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the maximum number of threads of a block.
    pub fn max_threads(&self) -> u32 {
        self.max_threads
    }

    /// Returns the number of registers per thread.
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// Returns the bytes of local memory per thread, such as spilled registers.
    pub fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    /// Returns the maximum dynamic shared memory of a block.
    pub fn max_shared(&self) -> u32 {
        self.device.info().shared_per_block.saturating_sub(self.static_shared)
    }

    /// Returns the number of blocks that one multiprocessor runs at a time, which gives the size
    /// of a persistent grid.
    pub fn blocks_per_multiprocessor(
        &self,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError> {
        if let Some(&blocks) = lock(&self.fits).get(&(threads, shared_bytes)) {
            return Ok(blocks);
        }
        self.allow(shared_bytes)?;
        let driver = &self.device.0.driver;
        self.device.0.bind()?;
        let mut blocks = 0;
        // SAFETY: a valid pointer and a loaded function.
        let status = unsafe {
            (driver.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &mut blocks,
                self.raw,
                threads as c_int,
                shared_bytes as usize,
            )
        };
        driver.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", status)?;
        let blocks = blocks.max(0) as u32;
        lock(&self.fits).insert((threads, shared_bytes), blocks);
        Ok(blocks)
    }

    /// Returns an error for a launch that cannot run, and allows the kernel the shared memory
    /// requested.
    pub(crate) fn check(&self, grid: &Grid, args: &Args) -> Result<(), DeviceError> {
        if grid.threads == 0 || grid.threads > self.max_threads {
            let max = self.max_threads;
            return Err(
                self.refuse(format!("{} threads per block; 1 to {max} are possible", grid.threads))
            );
        }
        if grid.blocks > i32::MAX as u32 {
            return Err(self.refuse(format!("{} blocks are too many", grid.blocks)));
        }
        if let Some(expected) = &self.parameters
            && !args.sizes().eq(expected.iter().copied())
        {
            let given: Vec<usize> = args.sizes().collect();
            return Err(self.refuse(format!(
                "its parameters have {expected:?} bytes, the arguments have {given:?}"
            )));
        }
        self.allow(grid.shared_bytes)
    }

    fn allow(&self, bytes: u32) -> Result<(), DeviceError> {
        let most = self.max_shared();
        if bytes > most {
            let kernel = self.name.to_string();
            return Err(DeviceError::SharedMemory { kernel, asked: bytes, most });
        }
        if bytes <= self.shared.load(Ordering::Acquire) {
            return Ok(());
        }
        let driver = &self.device.0.driver;
        self.device.0.bind()?;
        let attribute = function_attribute::MAX_DYNAMIC_SHARED;
        // SAFETY: a loaded function.
        let status = unsafe { (driver.cuFuncSetAttribute)(self.raw, attribute, bytes as c_int) };
        driver.check("cuFuncSetAttribute", status)?;
        self.shared.fetch_max(bytes, Ordering::AcqRel);
        Ok(())
    }

    fn refuse(&self, problem: String) -> DeviceError {
        DeviceError::Launch { kernel: self.name.to_string(), problem }
    }
}

/// Returns the sizes of a function's parameters; `None` from drivers before CUDA 12.4.
fn parameters(driver: &Driver, function: Handle) -> Option<Arc<[usize]>> {
    let get = driver.cuFuncGetParamInfo?;
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: valid pointers and a loaded function; past the last parameter the driver
        // returns an error.
        if unsafe { get(function, sizes.len(), &mut offset, &mut size) } != 0 {
            return Some(sizes.into());
        }
        sizes.push(size);
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("registers", &self.registers)
            .field("local_bytes", &self.local_bytes)
            .finish_non_exhaustive()
    }
}
