//! The compiled kernels, and how to run one.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// A kernel, with the layout of table.h.
#[repr(C)]
pub(crate) struct Kernel {
    name: *const c_char,
    call: Option<unsafe extern "C" fn(*mut *mut c_void)>,
    sizes: *const u32,
    parameters: u32,
    pub(crate) max_threads: u32,
    shared_start: *mut c_char,
    shared_end: *mut c_char,
}

#[repr(C)]
pub(crate) struct Source {
    name: *const c_char,
    kernels: *const Kernel,
}

#[repr(C)]
struct Failure {
    status: c_int,
    faulted: c_int,
    write: c_int,
    address: u64,
    text: [c_char; 1024],
}

/// The failure of a kernel.
pub(crate) struct Fault {
    /// The CUDA status code.
    pub(crate) status: u32,
    /// The address of the access that failed, if that is the cause.
    pub(crate) address: Option<u64>,
    pub(crate) text: String,
}

/// A launch, with the values of its arguments.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) kernel: &'static Kernel,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) arguments: Vec<Vec<u8>>,
}

unsafe extern "C" {
    static emulated_sources: Source;
    fn emulated_launch(
        kernel: *const Kernel,
        grid: *const u32,
        block: *const u32,
        shared_bytes: u32,
        arguments: *mut *mut c_void,
        poison: u8,
        reverse: c_int,
        failure: *mut Failure,
    );
}

// SAFETY: these tables are never written.
unsafe impl Sync for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Source {}

/// Returns the source with the given name.
pub(crate) fn source(name: &CStr) -> Option<&'static Source> {
    // SAFETY: the table ends with an entry without a name, names are null-terminated, and
    // everything is static.
    unsafe {
        let mut at = &raw const emulated_sources;
        while !(*at).name.is_null() {
            if CStr::from_ptr((*at).name) == name {
                return Some(&*at);
            }
            at = at.add(1);
        }
    }
    None
}

impl Source {
    /// Returns the kernel of this source with the given name.
    pub(crate) fn kernel(&self, name: &CStr) -> Option<&'static Kernel> {
        let mut at = self.kernels;
        // SAFETY: as above.
        unsafe {
            while !(*at).name.is_null() {
                if CStr::from_ptr((*at).name) == name {
                    return Some(&*at);
                }
                at = at.add(1);
            }
        }
        None
    }
}

impl Kernel {
    pub(crate) fn name(&self) -> String {
        // SAFETY: a static, null-terminated string.
        unsafe { CStr::from_ptr(self.name) }.to_string_lossy().into_owned()
    }

    /// Returns the sizes of the kernel's parameters.
    pub(crate) fn sizes(&self) -> &'static [u32] {
        // SAFETY: a static array of that length.
        unsafe { std::slice::from_raw_parts(self.sizes, self.parameters as usize) }
    }
}

impl Launch {
    /// Runs the kernel to its end.
    pub(crate) fn run(&self, poison: u8, reverse: bool) -> Result<(), Fault> {
        /// The runtime has only one set of lanes.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pointers: Vec<*mut c_void> =
            self.arguments.iter().map(|bytes| bytes.as_ptr().cast_mut().cast()).collect();
        let mut failure = Failure { status: 0, faulted: 0, write: 0, address: 0, text: [0; 1024] };
        // SAFETY: `arguments` was created with one value per parameter of the kernel, each of the
        // parameter's size. The tests check how the kernel uses the addresses among them; the
        // runtime turns faults into failures where it can.
        unsafe {
            emulated_launch(
                self.kernel,
                self.grid.as_ptr(),
                self.block.as_ptr(),
                self.shared_bytes,
                pointers.as_mut_ptr(),
                poison,
                c_int::from(reverse),
                &mut failure,
            );
        }
        if failure.status == 0 {
            return Ok(());
        }
        // SAFETY: the runtime null-terminates the text within the array.
        let text = unsafe { CStr::from_ptr(failure.text.as_ptr()) }.to_string_lossy().into_owned();
        let address = (failure.faulted != 0).then_some(failure.address);
        Err(Fault { status: failure.status as u32, address, text })
    }
}
