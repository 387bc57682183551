//! NVRTC in the emulator's library. Kernels are already compiled, so the image of a module is the
//! name of its source.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{CStr, c_char, c_int};

use crate::exported::exported;

const NO_PROGRAM: u32 = 4;

/// The result of `nvrtcCreateProgram`: the bytes of an image.
type Program = Vec<u8>;

/// # Safety
/// The program must be one that was returned before, and the pointer must be valid for a write.
unsafe fn size(program: *const Program, bytes: *mut usize) -> u32 {
    // SAFETY: guaranteed by the caller.
    match unsafe { program.as_ref() } {
        Some(program) => {
            // SAFETY: as above.
            unsafe { bytes.write(program.len()) };
            0
        }
        None => NO_PROGRAM,
    }
}

exported! {
    fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) {
        // SAFETY: here and below, as with the real library, the caller passes valid pointers for
        // results, and programs that the library returned.
        unsafe {
            major.write(12);
            minor.write(8);
        }
        0
    }

    fn nvrtcGetNumSupportedArchs(count: *mut c_int) {
        // SAFETY: the pointer is valid.
        unsafe { count.write(1) };
        0
    }

    fn nvrtcGetSupportedArchs(architectures: *mut c_int) {
        // SAFETY: the caller's array holds the reported number of architectures.
        unsafe { architectures.write(90) };
        0
    }

    /// Creates a program; the name of its source is `NAME/kernel.cu`.
    fn nvrtcCreateProgram(
        program: *mut *mut Program, _text: *const c_char, name: *const c_char,
        _count: c_int, _headers: *const *const c_char, _names: *const *const c_char
    ) {
        // SAFETY: a null-terminated string, and a valid pointer.
        unsafe {
            let name = CStr::from_ptr(name).to_bytes();
            let folder = name.split(|&b| b == b'/').next().unwrap_or(name);
            program.write(Box::into_raw(Box::new([folder, b"\0"].concat())));
        }
        0
    }

    fn nvrtcDestroyProgram(program: *mut *mut Program) {
        // SAFETY: created above, and now destroyed.
        drop(unsafe { Box::from_raw(*program) });
        0
    }

    fn nvrtcCompileProgram(_program: *mut Program, _count: c_int, _options: *const *const c_char) {
        0
    }

    fn nvrtcGetProgramLogSize(_program: *mut Program, bytes: *mut usize) {
        // SAFETY: the pointer is valid.
        unsafe { bytes.write(1) };
        0
    }

    fn nvrtcGetProgramLog(_program: *mut Program, log: *mut c_char) {
        // SAFETY: the caller's buffer holds the reported number of bytes.
        unsafe { log.write(0) };
        0
    }

    fn nvrtcGetCUBINSize(program: *mut Program, bytes: *mut usize) {
        // SAFETY: a program created above.
        unsafe { size(program, bytes) }
    }

    fn nvrtcGetCUBIN(program: *mut Program, image: *mut u8) {
        // SAFETY: a program created above, and a buffer for its bytes.
        unsafe { image.copy_from_nonoverlapping((*program).as_ptr(), (*program).len()) };
        0
    }

    fn nvrtcGetPTXSize(_program: *mut Program, _bytes: *mut usize) {
        NO_PROGRAM
    }

    fn nvrtcGetPTX(_program: *mut Program, _image: *mut c_char) {
        NO_PROGRAM
    }
}
