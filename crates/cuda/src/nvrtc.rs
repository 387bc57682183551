//! Bindings to NVRTC, which compiles the kernels. It needs neither a device nor CUDA's headers.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::transmute_copy;
use std::ptr::null_mut;

use super::library::{load_first, nvrtc_candidates};
use super::{DeviceError, Source};

type Program = *mut c_void;
type Status = c_int;

/// The architecture that a device executes: 90 for sm_90.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture(pub u32);

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

/// A compiled source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Bytes of a CUBIN, or PTX that ends with a zero.
    pub bytes: Vec<u8>,
    /// The compiler's messages.
    pub log: String,
}

macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $kind:ty),*);)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($arg: $kind),*) -> Status,)*
        }

        impl Functions {
            /// # Safety
            /// The pointer that `symbols` returns for a name must be NVRTC's function of that name,
            /// and must stay valid.
            unsafe fn new(symbols: impl Fn(&str) -> Option<*const c_void>) -> Option<Functions> {
                // SAFETY: these are NVRTC's functions, by contract; a function pointer is as wide
                // as a pointer.
                unsafe { Some(Functions { $($name: transmute_copy(&symbols(stringify!($name))?),)* }) }
            }
        }
    };
}

functions! {
    fn nvrtcVersion(major: *mut c_int, minor: *mut c_int);
    fn nvrtcGetNumSupportedArchs(count: *mut c_int);
    fn nvrtcGetSupportedArchs(architectures: *mut c_int);
    fn nvrtcCreateProgram(
        program: *mut Program, text: *const c_char, name: *const c_char,
        count: c_int, headers: *const *const c_char, names: *const *const c_char
    );
    fn nvrtcDestroyProgram(program: *mut Program);
    fn nvrtcCompileProgram(program: Program, count: c_int, options: *const *const c_char);
    fn nvrtcGetProgramLogSize(program: Program, bytes: *mut usize);
    fn nvrtcGetProgramLog(program: Program, log: *mut c_char);
    fn nvrtcGetCUBINSize(program: Program, bytes: *mut usize);
    fn nvrtcGetCUBIN(program: Program, image: *mut c_char);
    fn nvrtcGetPTXSize(program: Program, bytes: *mut usize);
    fn nvrtcGetPTX(program: Program, image: *mut c_char);
}

/// NVRTC, loaded.
pub struct Compiler {
    functions: Functions,
    version: (u32, u32),
    architectures: Vec<Architecture>,
}

impl Compiler {
    /// Loads NVRTC: the library that WARPSEEK_NVRTC names, or the first one found in the usual
    /// folders, if possible of the driver's version.
    pub fn load(cuda_major: u32) -> Result<Self, DeviceError> {
        let none = |tried| DeviceError::NoCompiler { tried };
        let library = Box::leak(Box::new(load_first(nvrtc_candidates(cuda_major)).map_err(none)?));
        // SAFETY: NVRTC's functions have the types above, which are those in its header; the
        // library is never unloaded.
        let functions = unsafe {
            Functions::new(|name| library.get::<*const c_void>(name.as_bytes()).ok().map(|s| *s))
        };
        let functions = functions
            .ok_or_else(|| none(vec!["a library with the functions of CUDA 12".to_owned()]))?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: valid pointers, and space for as many numbers as NVRTC reported.
        let architectures = unsafe {
            (functions.nvrtcVersion)(&mut major, &mut minor);
            (functions.nvrtcGetNumSupportedArchs)(&mut count);
            let mut architectures = vec![0; count.max(0) as usize];
            (functions.nvrtcGetSupportedArchs)(architectures.as_mut_ptr());
            architectures
        };
        let mut architectures: Vec<Architecture> =
            architectures.into_iter().map(|a| Architecture(a.max(0) as u32)).collect();
        architectures.sort_unstable();
        Ok(Compiler { functions, version: (major as u32, minor as u32), architectures })
    }

    /// Returns the version of NVRTC, such as (12, 9).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the architectures that NVRTC can compile for.
    pub fn architectures(&self) -> &[Architecture] {
        &self.architectures
    }

    /// Returns the options for an architecture. For an architecture newer than the compiler, the
    /// target is PTX for the newest one it knows, which the driver compiles further.
    ///
    /// The compiler fuses and approximates no operation: scores must have the same bits as on the
    /// CPU.
    pub fn options(&self, architecture: Architecture) -> Vec<String> {
        let target = match self.architectures.last() {
            Some(newest) if !self.architectures.contains(&architecture) => {
                format!("compute_{}", newest.0)
            }
            _ => architecture.to_string(),
        };
        let fixed = [
            "--std=c++17",
            "--fmad=false",
            "--ftz=false",
            "--prec-div=true",
            "--prec-sqrt=true",
            "--generate-line-info",
        ];
        let target = format!("--gpu-architecture={target}");
        [target].into_iter().chain(fixed.map(String::from)).collect()
    }

    /// Compiles a source.
    pub fn compile(
        &self,
        source: &Source,
        architecture: Architecture,
        options: &[String],
    ) -> Result<Image, DeviceError> {
        let failed = |log: String| DeviceError::Compile {
            source_name: source.name.to_owned(),
            architecture: architecture.to_string(),
            log,
        };
        let c = |text: &str| {
            CString::new(text).map_err(|_| failed("its text contains a zero byte".into()))
        };
        let cs = |texts: Vec<&str>| texts.into_iter().map(c).collect::<Result<Vec<_>, _>>();
        let (text, name) = (c(source.text)?, c(&format!("{}/kernel.cu", source.name))?);
        let header_names = cs(source.headers.iter().map(|h| h.0).collect())?;
        let header_texts = cs(source.headers.iter().map(|h| h.1).collect())?;
        let option_texts = cs(options.iter().map(String::as_str).collect())?;
        let pointers = |texts: &[CString]| texts.iter().map(|t| t.as_ptr()).collect::<Vec<_>>();
        let f = &self.functions;
        let mut program = ProgramGuard { functions: f, raw: null_mut() };
        // SAFETY: all pointers lead to zero-terminated strings that live until this function
        // returns; the counts are the lengths of the arrays.
        unsafe {
            let status = (f.nvrtcCreateProgram)(
                &mut program.raw,
                text.as_ptr(),
                name.as_ptr(),
                header_names.len() as c_int,
                pointers(&header_texts).as_ptr(),
                pointers(&header_names).as_ptr(),
            );
            if status != 0 {
                return Err(failed(format!("NVRTC error {status} while the program was created")));
            }
            let option_pointers = pointers(&option_texts);
            let status = (f.nvrtcCompileProgram)(
                program.raw,
                option_pointers.len() as c_int,
                option_pointers.as_ptr(),
            );
            let log = program.read(f.nvrtcGetProgramLogSize, f.nvrtcGetProgramLog);
            let log = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
            if status != 0 {
                return Err(failed(format!("NVRTC error {status}\n{log}")));
            }
            let mut bytes = program.read(f.nvrtcGetCUBINSize, f.nvrtcGetCUBIN);
            if bytes.is_empty() {
                bytes = program.read(f.nvrtcGetPTXSize, f.nvrtcGetPTX);
            }
            if bytes.is_empty() {
                return Err(failed("NVRTC returned neither CUBIN nor PTX".into()));
            }
            Ok(Image { bytes, log: log.into_owned() })
        }
    }
}

struct ProgramGuard<'a> {
    functions: &'a Functions,
    raw: Program,
}

impl ProgramGuard<'_> {
    /// Reads one of NVRTC's outputs. The result is empty if there is none.
    ///
    /// # Safety
    /// The two functions must return the size and the bytes of the same output.
    unsafe fn read(
        &self,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        get: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ) -> Vec<u8> {
        let mut len = 0;
        // SAFETY: a valid pointer, then space for as many bytes as NVRTC reported.
        unsafe {
            if size(self.raw, &mut len) != 0 {
                return Vec::new();
            }
            let mut bytes = vec![0u8; len];
            if get(self.raw, bytes.as_mut_ptr().cast()) != 0 {
                return Vec::new();
            }
            bytes
        }
    }
}

impl Drop for ProgramGuard<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: created by NVRTC, and no longer used.
            unsafe { (self.functions.nvrtcDestroyProgram)(&mut self.raw) };
        }
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compiler(NVRTC {}.{})", self.version.0, self.version.1)
    }
}
