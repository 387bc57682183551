//! An open device: its context and its memory budget.
//!
//! Streams, events, buffers and kernels keep the device open and are defined above it. The methods
//! of [`Device`] that create them are next to their types.
#![allow(unsafe_code)]

use std::any::Any;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use super::cache::Cache;
use super::driver::{Address, Driver, Handle, OUT_OF_MEMORY};
use super::freed::FreedMemory;
use super::info::{handle, start};
use super::lock::lock;
use super::module::Module;
use super::nvrtc::{Architecture, Compiler};
use super::wait::Watch;
use super::{DeviceError, DeviceInfo, Source, Symbols};

/// An open device. Clones refer to the same device.
///
/// After a failure of the device ([`Fault::Device`](super::Fault)) nothing on it works any more.
/// The process can open it again once everything that belongs to it has been dropped:
/// streams, buffers, kernels and all handles, including handles opened separately. The driver
/// then resets the context that they share, and with it the failure. It does not reset the
/// context while a part of it is still held, because other code in the process may use the same
/// context. A device that hangs cannot be opened again, since its context cannot be destroyed
/// before the kernel ends; another process can use the device after this one has ended.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Context>);

/// The use of device memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes held now.
    pub current: u64,
    /// Maximum number of bytes held at any time.
    pub peak: u64,
    /// Maximum number of bytes that may be held; `None` if only the device sets a limit.
    pub budget: Option<u64>,
}

/// The state that all objects of a device share.
pub(crate) struct Context {
    pub(crate) driver: Driver,
    pub(crate) info: DeviceInfo,
    device: c_int,
    raw: Handle,
    memory: Mutex<MemoryUse>,
    freed: Mutex<FreedMemory>,
    /// Loaded sources, by the hash of their texts.
    pub(crate) modules: Mutex<HashMap<u128, Module>>,
    compiler: OnceLock<Result<Compiler, DeviceError>>,
    /// The trace that times what streams do, if there is one. Its events keep the device open, so
    /// its type is defined above this module, and unknown here.
    pub(crate) trace: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
    pub(crate) watch: Watch,
}

// SAFETY: the driver's functions may be called from any thread, and its handles may be used in
// any thread; `raw` is only passed to them.
unsafe impl Send for Context {}
// SAFETY: as for `Send`.
unsafe impl Sync for Context {}

impl Device {
    /// Opens a device. At most `budget` bytes of its memory will be allocated.
    pub fn open(ordinal: u32, budget: Option<u64>) -> Result<Device, DeviceError> {
        Self::over(Driver::load()?, ordinal, budget, false)
    }

    /// Opens a device of the emulator, whose functions `symbols` finds.
    ///
    /// # Safety `symbols` must be `warpseek_cuda_emulator::symbol`, or also return, for the name of
    /// a function of the driver, a pointer to a function with the same signature and behaviour.
    pub unsafe fn emulated(
        symbols: Symbols,
        ordinal: u32,
        budget: Option<u64>,
    ) -> Result<Device, DeviceError> {
        // SAFETY: the caller vouches for `symbols`.
        Self::over(unsafe { Driver::new(symbols) }?, ordinal, budget, true)
    }

    fn over(
        driver: Driver,
        ordinal: u32,
        budget: Option<u64>,
        emulated: bool,
    ) -> Result<Device, DeviceError> {
        let count = start(&driver)?;
        if ordinal >= count {
            return Err(DeviceError::NoSuchDevice { ordinal, count });
        }
        let info = DeviceInfo::read(&driver, ordinal, emulated)?;
        if info.capability < (7, 5) {
            let DeviceInfo { name, capability, .. } = info;
            return Err(DeviceError::OldDevice { name, capability });
        }
        let device = handle(&driver, ordinal)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid pointer, and a device that the driver returned.
        let status = unsafe { (driver.cuDevicePrimaryCtxRetain)(&mut raw, device) };
        driver.check("cuDevicePrimaryCtxRetain", status)?;
        Ok(Device(Arc::new(Context {
            driver,
            info,
            device,
            raw,
            memory: Mutex::new(MemoryUse { budget, ..MemoryUse::default() }),
            freed: Mutex::default(),
            modules: Mutex::default(),
            compiler: OnceLock::new(),
            trace: Mutex::default(),
            watch: Watch::default(),
        })))
    }

    /// Returns the properties of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Sets how long any call may wait for the device from now on: one minute by default, without
    /// limit if `None`. After that the device counts as hung ([`DeviceError::Hung`]): every call
    /// on it fails at once. Dropping its objects then frees nothing, but does not wait either.
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        self.0.watch.set_limit(limit);
    }

    /// Returns the memory held by buffers of this handle and its clones.
    pub fn memory(&self) -> MemoryUse {
        *lock(&self.0.memory)
    }

    /// Returns the maximum number of bytes that may be held: the budget, or else all memory of
    /// the device.
    pub fn memory_limit(&self) -> u64 {
        self.memory().budget.unwrap_or(self.info().memory)
    }

    /// Returns the number of bytes that can still be allocated: the device's free memory, within
    /// the budget.
    pub fn available(&self) -> Result<u64, DeviceError> {
        self.0.available()
    }

    /// Returns the number of bytes that can still be allocated, or an error that says what is
    /// missing if it is less than `needed`.
    pub fn require(&self, needed: u64) -> Result<u64, DeviceError> {
        let (available, memory) = (self.available()?, self.memory());
        if needed <= available {
            return Ok(available);
        }
        let left = memory.budget.map_or(u64::MAX, |b| b.saturating_sub(memory.current));
        Err(DeviceError::TooLarge { needed, available, budget: needed > left })
    }

    /// Keeps up to this many freed bytes for other buffers from now on, within the budget. They
    /// count as available.
    pub fn keep_freed(&self, most: u64) {
        lock(&self.0.freed).most = most;
        self.0.release_freed(most);
    }

    /// Returns the version of NVRTC, such as (12, 9).
    pub fn compiler_version(&self) -> Result<(u32, u32), DeviceError> {
        self.0.compiler().map(Compiler::version)
    }
}

impl Context {
    /// Makes this the thread's current context. Every driver call that works on a context comes
    /// after a call of this function, which fails once the device hangs.
    pub(crate) fn bind(&self) -> Result<(), DeviceError> {
        self.watch.check()?;
        // SAFETY: `raw` is retained until this is dropped.
        self.driver.check("cuCtxSetCurrent", unsafe { (self.driver.cuCtxSetCurrent)(self.raw) })
    }

    fn compiler(&self) -> Result<&Compiler, DeviceError> {
        let compiler = self.compiler.get_or_init(|| Compiler::load(self.info.cuda.0));
        compiler.as_ref().map_err(Clone::clone)
    }

    /// Returns the image of a source that the driver loads.
    pub(crate) fn image(&self, source: &Source) -> Result<Vec<u8>, DeviceError> {
        if self.info.emulated {
            // The emulator already has its kernels, compiled from the same sources, and needs
            // only the name.
            return Ok([source.name.as_bytes(), b"\0"].concat());
        }
        let (major, minor) = self.info.capability;
        let architecture = Architecture(major * 10 + minor);
        let image = Cache::of_user().image(self.compiler()?, source, architecture)?;
        Ok(image.bytes)
    }

    fn available(&self) -> Result<u64, DeviceError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid pointers.
        let status = unsafe { (self.driver.cuMemGetInfo_v2)(&mut free, &mut total) };
        self.driver.check("cuMemGetInfo", status)?;
        let memory = lock(&self.memory);
        let within = memory.budget.map_or(u64::MAX, |b| b.saturating_sub(memory.current));
        Ok(within.min(free as u64 + lock(&self.freed).bytes))
    }

    /// Allocates at least this many bytes. Returns the size and the address of the memory.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<(u64, Address), DeviceError> {
        let freed = lock(&self.freed).take(bytes);
        if let Some((room, address)) = freed {
            if self.count(room).is_ok() {
                return Ok((room, address));
            }
            // The block is larger than the budget allows.
            self.free_cached(address);
        }
        self.count(bytes)?;
        match self.allocate_new(bytes) {
            Ok(address) => Ok((bytes, address)),
            Err(error) => {
                lock(&self.memory).current -= bytes;
                Err(error)
            }
        }
    }

    /// Counts bytes as held, if the budget allows.
    fn count(&self, bytes: u64) -> Result<(), DeviceError> {
        // Requests for more than all memory of the device are refused here, because drivers
        // report absurd sizes with different errors.
        let mut memory = lock(&self.memory);
        let left = memory.budget.map_or(u64::MAX, |b| b.saturating_sub(memory.current));
        if bytes > left.min(self.info.memory) {
            return Err(DeviceError::OutOfMemory {
                asked: bytes,
                used: memory.current,
                available: left.min(self.info.memory),
                budget: bytes > left,
            });
        }
        memory.current += bytes;
        memory.peak = memory.peak.max(memory.current);
        Ok(())
    }

    /// Allocates memory from the driver, after it has been counted. Cached memory is freed first
    /// if necessary.
    fn allocate_new(&self, bytes: u64) -> Result<Address, DeviceError> {
        self.bind()?;
        let (budget, current) = {
            let memory = lock(&self.memory);
            (memory.budget, memory.current)
        };
        self.release_freed(budget.map_or(u64::MAX, |budget| budget.saturating_sub(current)));
        let mut address = 0;
        // SAFETY: a valid pointer. Zero bytes cannot be allocated, so an empty buffer has a few
        // bytes.
        let mut allocate =
            || unsafe { (self.driver.cuMemAlloc_v2)(&mut address, bytes.max(16) as usize) };
        let mut status = allocate();
        if status == OUT_OF_MEMORY && self.release_freed(0) {
            status = allocate();
        }
        if status == OUT_OF_MEMORY {
            let used = lock(&self.memory).current - bytes;
            let available = self.available().unwrap_or(0);
            return Err(DeviceError::OutOfMemory { asked: bytes, used, available, budget: false });
        }
        self.driver.check("cuMemAlloc", status).map(|()| address)
    }

    /// Returns cached memory to the driver until at most this many bytes are left. Returns true
    /// if it freed any.
    fn release_freed(&self, most: u64) -> bool {
        let mut released = false;
        loop {
            let block = {
                let mut freed = lock(&self.freed);
                let block = if freed.bytes > most { freed.blocks.pop() } else { None };
                freed.bytes -= block.map_or(0, |(room, _)| room);
                block
            };
            let Some((_, address)) = block else { return released };
            self.free_cached(address);
            released = true;
        }
    }

    /// Makes this the thread's current context and waits until nothing runs in it. Precedes
    /// driver calls that would themselves wait.
    pub(crate) fn settle(&self) -> Result<(), DeviceError> {
        self.bind()?;
        self.watch.settle()
    }

    /// Frees memory from `allocate`. Waits for running work, which may use the memory.
    pub(crate) fn free(&self, room: u64, address: Address) {
        let idle = self.settle().is_ok();
        lock(&self.memory).current -= room;
        if idle && !lock(&self.freed).keep((room, address)) {
            self.free_now(address);
        }
    }

    /// Frees memory that was cached.
    fn free_cached(&self, address: Address) {
        if self.settle().is_ok() {
            self.free_now(address);
        }
    }

    /// Frees memory at once. Nothing may run, because the driver would wait for it.
    fn free_now(&self, address: Address) {
        // SAFETY: allocated by `allocate_new`, and no longer used.
        unsafe { (self.driver.cuMemFree_v2)(address) };
    }

    pub(crate) fn allocate_pinned(&self, bytes: usize) -> Result<*mut c_void, DeviceError> {
        self.bind()?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: a valid pointer.
        let status = unsafe { (self.driver.cuMemHostAlloc)(&mut pointer, bytes.max(16), 0) };
        if status == OUT_OF_MEMORY {
            let problem = self.driver.words(status);
            return Err(DeviceError::HostMemory { asked: bytes as u64, problem });
        }
        self.driver.check("cuMemHostAlloc", status)?;
        Ok(pointer)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.watch.check().is_err() {
            // Both calls would wait for the hanging kernel.
            return;
        }
        self.release_freed(0);
        if self.bind().is_ok() {
            for (_, module) in lock(&self.modules).drain() {
                module.unload(&self.driver);
            }
        }
        // SAFETY: retained when the device was opened; everything that used it kept this alive.
        unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("info", &self.0.info)
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}
