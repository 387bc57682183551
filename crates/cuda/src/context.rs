#![allow(unsafe_code)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bytemuck::Pod;

use super::cache::Cache;
use super::driver::{Address, Driver, Handle, OUT_OF_MEMORY};
use super::info::{handle, start};
use super::kernel::Module;
use super::nvrtc::{Architecture, Compiler};
use super::trace;
use super::wait::Watch;
use super::{
    Buffer, DeviceError, DeviceInfo, Event, Kernel, Pinned, Source, Stream, Symbols, Trace,
};

/// A device, opened. Clones are the same device.
///
/// After a failure of the device ([`Fault::Device`](super::Fault)) nothing on it works any more. It can be opened anew in the same process when everything of it has been
/// dropped: streams, buffers, kernels and all handles, also those that were opened one by one. The driver then resets the context that they share, and with it the failure. It is not reset while
/// somebody holds a part of it: others in the process may use the same context. A device that hangs cannot be opened anew, since its context cannot go before the kernel
/// ends; another process can use it when this one has ended.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Context>);

/// Bytes of device memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Held now.
    pub current: u64,
    /// The most ever held.
    pub peak: u64,
    /// What may be held; none where only the device is the limit.
    pub budget: Option<u64>,
}

/// What all parts of a device share.
pub(crate) struct Context {
    pub(crate) driver: Driver,
    pub(crate) info: DeviceInfo,
    device: c_int,
    raw: Handle,
    memory: Mutex<MemoryUse>,
    modules: Mutex<HashMap<u128, Module>>,
    compiler: OnceLock<Result<Compiler, DeviceError>>,
    /// Who wants to know what streams do.
    pub(crate) trace: Mutex<Weak<trace::Inner>>,
    pub(crate) watch: Watch,
}

// SAFETY: the driver's functions may be called from any thread, and its handles are used in any thread; `raw` is only handed to them.
unsafe impl Send for Context {}
// SAFETY: likewise.
unsafe impl Sync for Context {}

impl Device {
    /// Opens a device. At most `budget` bytes of its memory will be taken.
    pub fn open(ordinal: u32, budget: Option<u64>) -> Result<Device, DeviceError> {
        Self::over(Driver::load()?, ordinal, budget, false)
    }

    /// Opens a device of the emulator, whose functions `symbols` finds.
    ///
    /// # Safety
    /// `symbols` must be `warpseek_cuda_emulator::symbol`, or keep its promises: what it returns is the driver's function of that name.
    pub unsafe fn emulated(
        symbols: Symbols,
        ordinal: u32,
        budget: Option<u64>,
    ) -> Result<Device, DeviceError> {
        // SAFETY: the caller's promise.
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
        // SAFETY: a valid pointer and a device the driver gave.
        let status = unsafe { (driver.cuDevicePrimaryCtxRetain)(&mut raw, device) };
        driver.check("cuDevicePrimaryCtxRetain", status)?;
        Ok(Device(Arc::new(Context {
            driver,
            info,
            device,
            raw,
            memory: Mutex::new(MemoryUse { budget, ..MemoryUse::default() }),
            modules: Mutex::default(),
            compiler: OnceLock::new(),
            trace: Mutex::default(),
            watch: Watch::default(),
        })))
    }

    /// What is known about it.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// How long anybody waits for the device from now on, a minute unless told; none is for ever. After that it counts as hung ([`DeviceError::Hung`]): every call
    /// on it fails at once, and dropping what belongs to it gives nothing back, but does not wait either.
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        self.0.watch.set_limit(limit);
    }

    /// Memory held by buffers of this handle and its clones.
    pub fn memory(&self) -> MemoryUse {
        *lock(&self.0.memory)
    }

    /// Bytes that can still be taken: what the device has free, within the budget.
    pub fn available(&self) -> Result<u64, DeviceError> {
        self.0.available()
    }

    /// A new stream: an order of work.
    pub fn stream(&self) -> Result<Stream, DeviceError> {
        Stream::new(self)
    }

    /// A new event: a moment in a stream.
    pub fn event(&self) -> Result<Event, DeviceError> {
        Event::new(self)
    }

    /// Times what streams do from now on, for the last who asks.
    pub fn trace(&self) -> Trace {
        Trace::new(self)
    }

    /// Memory on the device for `len` values. What it holds is unspecified.
    pub fn buffer<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::new(self, len)
    }

    /// Memory on the device with these values, there when this returns.
    pub fn upload<T: Pod>(&self, stream: &Stream, values: &[T]) -> Result<Buffer<T>, DeviceError> {
        let buffer = self.buffer(values.len())?;
        stream.upload(values, &buffer)?;
        Ok(buffer)
    }

    /// Page-locked memory of the host, all zero: what copies need to run beside other work.
    pub fn pinned<T: Pod>(&self, len: usize) -> Result<Pinned<T>, DeviceError> {
        Pinned::new(self, len)
    }

    /// A kernel of a source, compiled when its source is first asked for.
    pub fn kernel(&self, source: &Source, name: &str) -> Result<Kernel, DeviceError> {
        // Held while compiling, so that nothing is compiled twice.
        let mut modules = lock(&self.0.modules);
        // By text: a source may come with the part of a header that is needed.
        let module = match modules.entry(source.hash(&[])) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(Module::load(self, &self.0.image(&source.as_wanted()?)?)?)
            }
        };
        Kernel::new(self, module, name)
    }

    /// The version of NVRTC, such as (12, 9).
    pub fn compiler_version(&self) -> Result<(u32, u32), DeviceError> {
        self.0.compiler().map(Compiler::version)
    }
}

impl Context {
    /// Makes this the thread's context; every call into the driver that works on one comes after this. So none comes once the device hangs.
    pub(crate) fn bind(&self) -> Result<(), DeviceError> {
        self.watch.check()?;
        // SAFETY: `raw` is retained until this is dropped.
        self.driver.check("cuCtxSetCurrent", unsafe { (self.driver.cuCtxSetCurrent)(self.raw) })
    }

    fn compiler(&self) -> Result<&Compiler, DeviceError> {
        let compiler = self.compiler.get_or_init(|| Compiler::load(self.info.cuda.0));
        compiler.as_ref().map_err(Clone::clone)
    }

    /// What the driver loads for a source.
    fn image(&self, source: &Source) -> Result<Vec<u8>, DeviceError> {
        if self.info.emulated {
            // The emulator has its kernels already, compiled from the same sources, and wants but the name.
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
        Ok(within.min(free as u64))
    }

    pub(crate) fn allocate(&self, bytes: u64) -> Result<Address, DeviceError> {
        {
            // More than there is at all is refused here: the driver's word for absurd sizes varies.
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
        }
        let result = self.bind().and_then(|()| {
            let mut address = 0;
            // SAFETY: a valid pointer. Nothing cannot be allocated, so an empty buffer has a few bytes.
            let status =
                unsafe { (self.driver.cuMemAlloc_v2)(&mut address, bytes.max(16) as usize) };
            if status == OUT_OF_MEMORY {
                let used = lock(&self.memory).current - bytes;
                let available = self.available().unwrap_or(0);
                return Err(DeviceError::OutOfMemory {
                    asked: bytes,
                    used,
                    available,
                    budget: false,
                });
            }
            self.driver.check("cuMemAlloc", status).map(|()| address)
        });
        let mut memory = lock(&self.memory);
        match result {
            Ok(_) => memory.peak = memory.peak.max(memory.current),
            Err(_) => memory.current -= bytes,
        }
        result
    }

    /// Makes this the thread's context, and waits until nothing runs in it: for calls with which the driver would wait.
    pub(crate) fn settle(&self) -> Result<(), DeviceError> {
        self.bind()?;
        self.watch.settle()
    }

    /// Frees what `allocate` gave. The driver waits for work that uses it.
    pub(crate) fn free(&self, address: Address, bytes: u64) {
        if self.settle().is_ok() {
            // SAFETY: allocated by `allocate`, and its only owner is being dropped.
            unsafe { (self.driver.cuMemFree_v2)(address) };
        }
        lock(&self.memory).current -= bytes;
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
            // Both calls would wait for the kernel that hangs.
            return;
        }
        if self.bind().is_ok() {
            for (_, module) in lock(&self.modules).drain() {
                module.unload(&self.driver);
            }
        }
        // SAFETY: retained when opened; everything that used it held this alive.
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

/// The lock, also after a panic elsewhere: what it guards is counters and maps that are always whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
