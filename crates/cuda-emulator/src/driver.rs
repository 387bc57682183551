//! The functions of the CUDA driver.
#![allow(unsafe_code, non_snake_case)]

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::DEVICES;
use crate::exported::exported;
use crate::faults::Faults;
use crate::kernels::{Kernel, Launch, Source, source};
use crate::state::{Error, INVALID, Operation, State};

pub(crate) type Status = c_uint;
type Outcome = Result<(), Error>;
type Recorded = Arc<Vec<Operation>>;

/// A context and the faults injected into it.
struct Context {
    faults: Arc<Faults>,
    state: Mutex<State>,
}

const MULTIPROCESSORS: c_int = 4;
const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
const SHARED_BY_DEFAULT: u32 = 48 << 10;

thread_local! {
    static CURRENT: Cell<*const Context> = const { Cell::new(std::ptr::null()) };
    static MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Returns the faults injected into a function: those of the context, or those of the thread if
/// the function needs no context.
pub(crate) fn faults(function: &str) -> Arc<Faults> {
    let alone = ["cuInit", "cuDriver", "cuDevice", "cuCtx", "nvrtc"];
    let current = CURRENT.get();
    if current.is_null() || alone.iter().any(|start| function.starts_with(start)) {
        return Faults::of_thread();
    }
    // SAFETY: contexts are leaked, so that a handle is always valid.
    unsafe { &*current }.faults.clone()
}

/// Returns the status of an outcome and keeps the message for `emulatorMessage`.
pub(crate) fn status(outcome: Outcome) -> Status {
    let (status, text) = match outcome {
        Ok(()) => (0, None),
        Err(error) => (error.status, CString::new(error.text).ok()),
    };
    MESSAGE.set(text);
    status
}

/// Returns the state of the thread's context.
fn state() -> Result<MutexGuard<'static, State>, Error> {
    const NO_CONTEXT: u32 = 201;
    let current = CURRENT.get();
    if current.is_null() {
        return Err(Error::new(NO_CONTEXT, "the thread has no context"));
    }
    // SAFETY: as above.
    Ok(unsafe { &*current }.state.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Calls a function with the state of the thread's context.
fn with(f: impl FnOnce(&mut State) -> Outcome) -> Status {
    status(state().and_then(|mut state| f(&mut state)))
}

/// Calls a function that waits with the state of the thread's context. With a real driver, it
/// would never return if a kernel hangs.
fn waiting(call: &str, f: impl FnOnce(&mut State) -> Outcome) -> Status {
    with(|state| {
        let done = f(state);
        state.must_return(call);
        done
    })
}

/// Writes a result.
///
/// # Safety
/// The pointer must be valid for a write.
unsafe fn put<T>(to: *mut T, value: T) -> Outcome {
    // SAFETY: guaranteed by the caller.
    unsafe { to.write(value) };
    Ok(())
}

/// Returns the message of the thread's last error; the real driver has no such function.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn emulatorMessage() -> *const c_char {
    MESSAGE.with_borrow(|text| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()))
}

exported! {
    fn cuInit(_flags: c_uint) {
        0
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: here and below, as with the real driver, the caller passes valid pointers for
        // results, and handles that the driver returned.
        status(unsafe { put(version, Faults::of_thread().cuda) })
    }

    fn cuGetErrorName(status: Status, text: *mut *const c_char) {
        let name = match status {
            0 => c"CUDA_SUCCESS",
            1 => c"CUDA_ERROR_INVALID_VALUE",
            2 => c"CUDA_ERROR_OUT_OF_MEMORY",
            101 => c"CUDA_ERROR_INVALID_DEVICE",
            500 => c"CUDA_ERROR_NOT_FOUND",
            600 => c"CUDA_ERROR_NOT_READY",
            700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
            710 => c"CUDA_ERROR_ASSERT",
            716 => c"CUDA_ERROR_MISALIGNED_ADDRESS",
            719 => c"CUDA_ERROR_LAUNCH_FAILED",
            900 => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            _ => c"CUDA_ERROR_UNKNOWN",
        };
        // SAFETY: the pointer is valid.
        unsafe { text.write(name.as_ptr()) };
        0
    }

    fn cuGetErrorString(_status: Status, text: *mut *const c_char) {
        // SAFETY: the pointer is valid.
        unsafe { text.write(c"emulated".as_ptr()) };
        0
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: the pointer is valid.
        status(unsafe { put(count, DEVICES as c_int) })
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        if !(0..DEVICES as c_int).contains(&ordinal) {
            return status(Err(Error::new(101, "there is no such device")));
        }
        // SAFETY: the pointer is valid.
        status(unsafe { put(device, ordinal) })
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        let text = ["emulated, in order\0", "emulated, in reverse\0"][device as usize % 2];
        let len = text.len().min(len.max(0) as usize);
        // SAFETY: the caller's buffer has `len` bytes.
        unsafe { name.copy_from_nonoverlapping(text.as_ptr().cast(), len) };
        0
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) {
        // SAFETY: the pointer is valid.
        status(unsafe { put(bytes, Faults::of_thread().memory as usize) })
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        let known = match attribute {
            16 => MULTIPROCESSORS,
            38 => 4 << 20,
            39 => THREADS_PER_MULTIPROCESSOR as c_int,
            75 => Faults::of_thread().capability / 10,
            76 => Faults::of_thread().capability % 10,
            97 => Faults::of_thread().shared as c_int,
            _ => return status(Err(Error::new(INVALID, format!("attribute {attribute} of devices is not emulated")))),
        };
        // SAFETY: the pointer is valid.
        status(unsafe { put(value, known) })
    }

    /// Gives each caller a new context, so that a failure in one test does not affect the next.
    fn cuDevicePrimaryCtxRetain(
        context: *mut *const Context,
        device: c_int,
    ) {
        let faults = Faults::of_thread();
        let state = Mutex::new(State::new(device as u32, faults.memory, faults.hang));
        let new: &'static Context = Box::leak(Box::new(Context { faults, state }));
        // SAFETY: the pointer is valid.
        status(unsafe { put(context, new) })
    }

    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) {
        // The thread's context is the one to release, since it was set just before. An empty
        // shell of it remains.
        with(|state| {
            state.must_return("cuDevicePrimaryCtxRelease");
            *state = State::new(state.device, state.memory.total(), 0);
            Ok(())
        })
    }

    fn cuCtxSetCurrent(context: *const Context) {
        CURRENT.set(context);
        0
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        // SAFETY: the pointers are valid.
        with(|state| unsafe {
            state.alive()?;
            put(total, state.memory.total() as usize)?;
            put(free, state.memory.free() as usize)
        })
    }

    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        with(|state| {
            state.alive()?;
            state.refuse_while_recording("memory is allocated")?;
            let poison = state.poison();
            match state.memory.allocate(bytes, poison) {
                // SAFETY: the pointer is valid.
                Some(new) => unsafe { put(address, new) },
                None => Err(Error::new(2, format!("{bytes} bytes"))),
            }
        })
    }

    fn cuMemFree_v2(address: u64) {
        with(|state| {
            state.refuse_while_recording("memory is freed")?;
            let done = state.synchronize_all();
            state.must_return("cuMemFree");
            let freed = state.memory.release(address);
            done?;
            freed.then_some(()).ok_or_else(|| Error::new(INVALID, "there is no buffer at this address"))
        })
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        // SAFETY: allocates memory, and fills it if the allocation succeeded.
        unsafe {
            let memory = libc::malloc(bytes);
            if memory.is_null() {
                return status(Err(Error::new(2, format!("{bytes} bytes"))));
            }
            memory.cast::<u8>().write_bytes(0xcb, bytes);
            status(put(pointer, memory))
        }
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        // Copies may be in flight, as with device memory.
        let done = waiting("cuMemFreeHost", State::synchronize_all);
        // SAFETY: allocated above.
        unsafe { libc::free(pointer) };
        done
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        with(|state| state.enqueue(stream, Operation::CopyIn { to, from, bytes }))
    }

    fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        with(|state| state.enqueue(stream, Operation::CopyOut { to, from, bytes }))
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        with(|state| state.enqueue(stream, Operation::Copy { to, from, bytes }))
    }

    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: usize) {
        with(|state| state.enqueue(stream, Operation::Fill { to, value, bytes }))
    }

    fn cuStreamCreate(stream: *mut usize, _flags: c_uint) {
        // SAFETY: the pointer is valid.
        with(|state| unsafe { put(stream, state.new_stream()) })
    }

    fn cuStreamDestroy_v2(stream: usize) {
        waiting("cuStreamDestroy", |state| state.drop_stream(stream))
    }

    fn cuStreamSynchronize(stream: usize) {
        waiting("cuStreamSynchronize", |state| state.synchronize(stream))
    }

    /// Executes the work: a query is a kind of waiting. Only work that hangs is not ready.
    fn cuStreamQuery(stream: usize) {
        with(|state| state.synchronize(stream))
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) {
        with(|state| state.wait(stream, event))
    }

    fn cuStreamBeginCapture_v2(stream: usize, _mode: c_uint) {
        with(|state| state.begin_recording(stream))
    }

    fn cuStreamEndCapture(stream: usize, graph: *mut *mut Recorded) {
        with(|state| {
            let operations = Arc::new(state.end_recording(stream)?);
            // SAFETY: the pointer is valid.
            unsafe { put(graph, Box::into_raw(Box::new(operations))) }
        })
    }

    fn cuGraphInstantiateWithFlags(
        exec: *mut *mut Recorded,
        graph: *const Recorded,
        _flags: u64,
    ) {
        // SAFETY: a valid pointer, and a graph created above.
        status(unsafe { put(exec, Box::into_raw(Box::new(Arc::clone(&*graph)))) })
    }

    fn cuGraphLaunch(exec: *const Recorded, stream: usize) {
        // SAFETY: a graph created above.
        let operations = Arc::clone(unsafe { &*exec });
        with(|state| state.enqueue(stream, Operation::Graph(operations)))
    }

    fn cuGraphDestroy(graph: *mut Recorded) {
        // SAFETY: created above, and now destroyed.
        drop(unsafe { Box::from_raw(graph) });
        0
    }

    fn cuGraphExecDestroy(exec: *mut Recorded) {
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(exec) });
        0
    }

    fn cuEventCreate(event: *mut usize, _flags: c_uint) {
        // SAFETY: the pointer is valid.
        with(|state| unsafe { put(event, state.new_event()) })
    }

    fn cuEventDestroy_v2(event: usize) {
        with(|state| {
            state.drop_event(event);
            Ok(())
        })
    }

    fn cuEventRecord(event: usize, stream: usize) {
        with(|state| state.record(event, stream))
    }

    fn cuEventSynchronize(event: usize) {
        waiting("cuEventSynchronize", |state| state.event_synchronize(event))
    }

    fn cuEventQuery(event: usize) {
        with(|state| state.event_synchronize(event))
    }

    fn cuEventElapsedTime(
        milliseconds: *mut f32,
        start: usize,
        end: usize,
    ) {
        // SAFETY: the pointer is valid.
        with(|state| unsafe { put(milliseconds, state.elapsed(start, end)?) })
    }

    /// Loads a module, whose image is the name of its source.
    fn cuModuleLoadData(module: *mut *const Source, image: *const c_char) {
        with(|state| {
            state.refuse_while_recording("a module is loaded")?;
            // SAFETY: a null-terminated string.
            let name = unsafe { CStr::from_ptr(image) };
            let found = source(name).ok_or_else(|| {
                let name = name.to_string_lossy();
                Error::new(INVALID, format!("there is no kernels/{name}/kernel.cu among the sources compiled for the emulator"))
            })?;
            // SAFETY: the pointer is valid.
            unsafe { put(module, std::ptr::from_ref(found)) }
        })
    }

    fn cuModuleUnload(_module: *const Source) {
        waiting("cuModuleUnload", |_| Ok(()))
    }

    fn cuModuleGetFunction(
        function: *mut *const Kernel,
        module: *const Source,
        name: *const c_char,
    ) {
        const NOT_FOUND: u32 = 500;
        // SAFETY: a module loaded above, and a null-terminated string.
        let found = unsafe { (*module).kernel(CStr::from_ptr(name)) };
        // SAFETY: the pointer is valid.
        status(
            found
                .ok_or_else(|| Error::new(NOT_FOUND, "no such kernel"))
                .and_then(|f| unsafe { put(function, std::ptr::from_ref(f)) }),
        )
    }

    fn cuFuncGetAttribute(
        value: *mut c_int,
        attribute: c_int,
        function: *const Kernel,
    ) {
        // SAFETY: a kernel returned above.
        let known = match attribute {
            0 => unsafe { (*function).max_threads as c_int },
            _ => 0,
        };
        // SAFETY: the pointer is valid.
        status(unsafe { put(value, known) })
    }

    fn cuFuncSetAttribute(
        function: *const Kernel,
        attribute: c_int,
        value: c_int,
    ) {
        const MAX_DYNAMIC_SHARED: c_int = 8;
        with(|state| {
            let most = faults("cuFuncSetAttribute").shared as c_int;
            if attribute != MAX_DYNAMIC_SHARED || !(0..=most).contains(&value) {
                return Err(Error::new(INVALID, format!("kernel attribute {attribute} cannot be set to {value}")));
            }
            state.shared.insert(function as usize, value as u32);
            Ok(())
        })
    }

    fn cuFuncGetParamInfo(
        function: *const Kernel,
        index: usize,
        offset: *mut usize,
        size: *mut usize,
    ) {
        // SAFETY: a kernel returned above, and valid pointers.
        unsafe {
            let sizes = (*function).sizes();
            if index >= sizes.len() {
                return status(Err(Error::new(INVALID, "no such parameter")));
            }
            let _ = put(offset, 0);
            status(put(size, sizes[index] as usize))
        }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        _function: *const Kernel,
        threads: c_int,
        shared_bytes: usize,
    ) {
        let by_threads = THREADS_PER_MULTIPROCESSOR / (threads.max(1) as u32).next_multiple_of(32);
        let shared = faults("cuOccupancyMaxActiveBlocksPerMultiprocessor").shared as usize;
        let by_shared = (shared / shared_bytes.max(1)).min(32) as u32;
        // SAFETY: the pointer is valid.
        status(unsafe { put(blocks, by_threads.min(by_shared) as c_int) })
    }

    fn cuLaunchKernel(
        function: *const Kernel,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: usize,
        arguments: *const *const u8,
        _extra: *mut *mut c_void,
    ) {
        // SAFETY: a kernel returned above; all kernels are static.
        let kernel: &'static Kernel = unsafe { &*function };
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        let blocks = u64::from(grid_x) * u64::from(grid_y) * u64::from(grid_z);
        with(|state| {
            if threads == 0 || threads > u64::from(kernel.max_threads) || blocks == 0 {
                return Err(Error::new(INVALID, format!("cannot launch {blocks} blocks of {threads} threads")));
            }
            let allowed = state.shared.get(&(function as usize)).copied().unwrap_or(SHARED_BY_DEFAULT);
            if shared_bytes > allowed.max(SHARED_BY_DEFAULT) {
                return Err(Error::new(
                    INVALID,
                    format!("the kernel may not use {shared_bytes} bytes of shared memory"),
                ));
            }
            // SAFETY: there are as many pointers as the kernel has parameters, each to a value of
            // the parameter's size.
            let value = |(i, &size): (usize, &u32)| unsafe {
                std::slice::from_raw_parts(*arguments.add(i), size as usize).to_vec()
            };
            let launch = Launch {
                kernel,
                grid: [grid_x, grid_y, grid_z],
                block: [block_x, block_y, block_z],
                shared_bytes,
                arguments: kernel.sizes().iter().enumerate().map(value).collect(),
            };
            state.enqueue(stream, Operation::Launch(launch))
        })
    }
}
