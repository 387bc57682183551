//! The CUDA driver's functions that this crate uses, and their errors.
//!
//! The functions are bound by hand instead of through a crate. Results are plain numbers here, so
//! a result that a newer driver introduces is an error and not undefined behaviour, and a missing
//! library or function is an error and not a panic. The emulator offers the same functions, so
//! everything in the device layer above this file is tested without a GPU.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;

use super::DeviceError;
use super::library::{driver_candidates, load_first};

/// A handle of the driver: context, stream, event, module, function or graph.
pub(crate) type Handle = *mut c_void;
/// An address in device memory.
pub(crate) type Address = u64;
/// Result of the driver's functions; 0 is success.
pub(crate) type Status = c_uint;

pub(crate) const OUT_OF_MEMORY: Status = 2;
pub(crate) const NO_DEVICE: Status = 100;
pub(crate) const NOT_READY: Status = 600;

/// Attributes of devices (`CUdevice_attribute`).
pub(crate) mod attribute {
    pub(in super::super) const MULTIPROCESSORS: i32 = 16;
    pub(in super::super) const L2_BYTES: i32 = 38;
    pub(in super::super) const THREADS_PER_MULTIPROCESSOR: i32 = 39;
    pub(in super::super) const CAPABILITY_MAJOR: i32 = 75;
    pub(in super::super) const CAPABILITY_MINOR: i32 = 76;
    pub(in super::super) const SHARED_PER_BLOCK_OPT_IN: i32 = 97;
}

/// Attributes of functions (`CUfunction_attribute`).
pub(crate) mod function_attribute {
    pub(in super::super) const MAX_THREADS: i32 = 0;
    pub(in super::super) const STATIC_SHARED: i32 = 1;
    pub(in super::super) const LOCAL_BYTES: i32 = 3;
    pub(in super::super) const REGISTERS: i32 = 4;
    pub(in super::super) const MAX_DYNAMIC_SHARED: i32 = 8;
}

macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $kind:ty),*);)*) => {
        /// The functions of the driver.
        pub(crate) struct Driver {
            $(pub(crate) $name: unsafe extern "C" fn($($arg: $kind),*) -> Status,)*
            /// Sizes of a kernel's parameters (CUDA 12.4 or later).
            pub(crate) cuFuncGetParamInfo:
                Option<unsafe extern "C" fn(Handle, usize, *mut usize, *mut usize) -> Status>,
            /// The PCI bus id of a device, which NVML knows it by. The emulator has no such bus.
            pub(crate) cuDeviceGetPCIBusId:
                Option<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Status>,
            /// A function that only the emulator has: details about the last error.
            emulatorMessage: Option<unsafe extern "C" fn() -> *const c_char>,
        }

        impl Driver {
            /// Creates a driver from the functions that `symbols` finds.
            ///
            /// # Safety
            /// The pointer that `symbols` returns for a name must be the driver's function of that
            /// name, and must stay valid.
            pub(crate) unsafe fn new(
                symbols: impl Fn(&str) -> Option<*const c_void>,
            ) -> Result<Driver, DeviceError> {
                let need = |name: &str| symbols(name).ok_or_else(|| DeviceError::OldDriver {
                    what: format!("it has no {name}"),
                });
                // SAFETY: these are the driver's functions, by contract; a function pointer is as
                // wide as a pointer.
                unsafe {
                    Ok(Driver {
                        $($name: transmute_copy(&need(stringify!($name))?),)*
                        cuFuncGetParamInfo: symbols("cuFuncGetParamInfo").map(|f| transmute_copy(&f)),
                        cuDeviceGetPCIBusId: symbols("cuDeviceGetPCIBusId").map(|f| transmute_copy(&f)),
                        emulatorMessage: symbols("emulatorMessage").map(|f| transmute_copy(&f)),
                    })
                }
            }
        }
    };
}

functions! {
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuGetErrorName(status: Status, text: *mut *const c_char);
    fn cuGetErrorString(status: Status, text: *mut *const c_char);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int);
    fn cuDevicePrimaryCtxRelease_v2(device: c_int);
    fn cuCtxSetCurrent(context: Handle);
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemAlloc_v2(address: *mut Address, bytes: usize);
    fn cuMemFree_v2(address: Address);
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemFreeHost(pointer: *mut c_void);
    fn cuMemcpyHtoDAsync_v2(to: Address, from: *const c_void, bytes: usize, stream: Handle);
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: Address, bytes: usize, stream: Handle);
    fn cuMemcpyDtoDAsync_v2(to: Address, from: Address, bytes: usize, stream: Handle);
    fn cuMemsetD8Async(to: Address, value: u8, bytes: usize, stream: Handle);
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint);
    fn cuStreamDestroy_v2(stream: Handle);
    fn cuStreamQuery(stream: Handle);
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint);
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint);
    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle);
    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: u64);
    fn cuGraphLaunch(exec: Handle, stream: Handle);
    fn cuGraphDestroy(graph: Handle);
    fn cuGraphExecDestroy(exec: Handle);
    fn cuEventCreate(event: *mut Handle, flags: c_uint);
    fn cuEventDestroy_v2(event: Handle);
    fn cuEventRecord(event: Handle, stream: Handle);
    fn cuEventQuery(event: Handle);
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle);
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void);
    fn cuModuleUnload(module: Handle);
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle);
    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: Handle, threads: c_int, shared_bytes: usize
    );
    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared_bytes: c_uint, stream: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void
    );
}

impl Driver {
    /// Loads the driver of this machine. Its library is never unloaded because it has threads and
    /// state.
    pub(crate) fn load() -> Result<Driver, DeviceError> {
        let library =
            load_first(driver_candidates()).map_err(|tried| DeviceError::NoDriver { tried })?;
        let library = Box::leak(Box::new(library));
        // SAFETY: libcuda's functions have the types above, which are those in its header; the
        // library is never unloaded.
        unsafe {
            Driver::new(|name| {
                library.get::<*const c_void>(name.as_bytes()).ok().map(|symbol| *symbol)
            })
        }
    }

    /// Converts a status to a result. An error contains the driver's description.
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<(), DeviceError> {
        if status == 0 {
            return Ok(());
        }
        Err(DeviceError::Driver { call, problem: self.words(status) })
    }

    /// Returns the driver's description of an error.
    pub(crate) fn words(&self, status: Status) -> String {
        let mut name = std::ptr::null();
        let mut text = std::ptr::null();
        // SAFETY: the pointers are valid for writing; strings of the driver are static.
        unsafe {
            (self.cuGetErrorName)(status, &mut name);
            (self.cuGetErrorString)(status, &mut text);
        }
        let mut words = match (string(name), string(text)) {
            (Some(name), Some(text)) => format!("{text} ({name})"),
            _ => format!("error {status}"),
        };
        // SAFETY: the emulator's message stays valid until this thread's next call.
        if let Some(more) = self.emulatorMessage.and_then(|f| string(unsafe { f() })) {
            words = format!("{words}: {more}");
        }
        words
    }
}

/// Reads a string from the driver, if it returned one.
fn string(text: *const c_char) -> Option<String> {
    // SAFETY: the driver returns null or a string that ends with a zero.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
