//! The energy that a device has used, read through NVML, the management library that comes with
//! the driver. It is loaded when it is first needed, like the driver.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::sync::OnceLock;

use super::driver::{Handle, Status};
use super::info::handle;
use super::library::{load_first, nvml_candidates};
use super::{Device, DeviceError};

/// Length of the text of a PCI bus id, as in `00000000:3B:00.0`, with the zero at its end.
const BUS_ID: usize = 32;

/// The functions of NVML that this crate uses.
struct Nvml {
    nvmlInit_v2: unsafe extern "C" fn() -> Status,
    nvmlErrorString: unsafe extern "C" fn(Status) -> *const c_char,
    nvmlDeviceGetHandleByPciBusId_v2: unsafe extern "C" fn(*const c_char, *mut Handle) -> Status,
    nvmlDeviceGetTotalEnergyConsumption: unsafe extern "C" fn(Handle, *mut u64) -> Status,
}

/// The energy counter of a device. Every device that this crate opens has one (NVIDIA added it
/// with Volta), but a virtual GPU may hide it.
pub struct EnergyCounter {
    nvml: &'static Nvml,
    device: Handle,
}

impl Nvml {
    /// Returns the library of this machine. It is loaded once and never unloaded.
    fn load() -> Result<&'static Nvml, DeviceError> {
        static NVML: OnceLock<Result<Nvml, DeviceError>> = OnceLock::new();
        let load = || {
            let library =
                load_first(nvml_candidates()).map_err(|tried| DeviceError::NoNvml { tried })?;
            let library = Box::leak(Box::new(library));
            // SAFETY: NVML's functions have the types above, which are those in its header; the
            // library is never unloaded.
            unsafe {
                Nvml::new(|name| {
                    library.get::<*const c_void>(name.as_bytes()).ok().map(|symbol| *symbol)
                })
            }
        };
        NVML.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// Creates the library from the functions that `symbols` finds, and starts it.
    ///
    /// # Safety
    /// The pointer that `symbols` returns for a name must be NVML's function of that name, and
    /// must stay valid.
    unsafe fn new(symbols: impl Fn(&str) -> Option<*const c_void>) -> Result<Nvml, DeviceError> {
        let need = |name: &'static str| {
            let problem = "the library does not have this function".to_owned();
            symbols(name).ok_or(DeviceError::Nvml { call: name, problem })
        };
        // SAFETY: these are NVML's functions, by contract; a function pointer is as wide as a
        // pointer.
        let nvml = unsafe {
            Nvml {
                nvmlInit_v2: transmute_copy(&need("nvmlInit_v2")?),
                nvmlErrorString: transmute_copy(&need("nvmlErrorString")?),
                nvmlDeviceGetHandleByPciBusId_v2: transmute_copy(&need(
                    "nvmlDeviceGetHandleByPciBusId_v2",
                )?),
                nvmlDeviceGetTotalEnergyConsumption: transmute_copy(&need(
                    "nvmlDeviceGetTotalEnergyConsumption",
                )?),
            }
        };
        // SAFETY: the function has no arguments.
        nvml.check("nvmlInit_v2", unsafe { (nvml.nvmlInit_v2)() })?;
        Ok(nvml)
    }

    /// Converts a status to a result. An error contains NVML's description.
    fn check(&self, call: &'static str, status: Status) -> Result<(), DeviceError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: NVML returns null or a static string that ends with a zero.
        let text = unsafe { (self.nvmlErrorString)(status) };
        let problem = match text.is_null() {
            true => format!("error {status}"),
            // SAFETY: as above.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        };
        Err(DeviceError::Nvml { call, problem })
    }
}

impl EnergyCounter {
    /// Opens the counter of the device with a PCI bus id.
    fn open(nvml: &'static Nvml, bus_id: &CStr) -> Result<Self, DeviceError> {
        let mut device = std::ptr::null_mut();
        // SAFETY: a string that ends with a zero, and a pointer that is valid for writing.
        let status =
            unsafe { (nvml.nvmlDeviceGetHandleByPciBusId_v2)(bus_id.as_ptr(), &mut device) };
        nvml.check("nvmlDeviceGetHandleByPciBusId_v2", status)?;
        let counter = EnergyCounter { nvml, device };
        counter.millijoules()?;
        Ok(counter)
    }

    /// Returns the energy in millijoules that the device has used since its driver was loaded. The
    /// device updates the counter several times per second.
    pub fn millijoules(&self) -> Result<u64, DeviceError> {
        let mut millijoules = 0;
        // SAFETY: a handle that NVML returned, and a pointer that is valid for writing.
        let status = unsafe {
            (self.nvml.nvmlDeviceGetTotalEnergyConsumption)(self.device, &mut millijoules)
        };
        self.nvml.check("nvmlDeviceGetTotalEnergyConsumption", status)?;
        Ok(millijoules)
    }
}

impl Device {
    /// Opens the energy counter of this device.
    pub fn energy_counter(&self) -> Result<EnergyCounter, DeviceError> {
        let driver = &self.0.driver;
        let call = "cuDeviceGetPCIBusId";
        let Some(bus_id_of) = driver.cuDeviceGetPCIBusId else {
            let problem = "the driver does not have this function".to_owned();
            return Err(DeviceError::Nvml { call, problem });
        };
        let device = handle(driver, self.info().ordinal)?;
        let mut text = [0u8; BUS_ID];
        // SAFETY: the buffer and its length; the driver ends the text with a zero.
        let status = unsafe { bus_id_of(text.as_mut_ptr().cast(), BUS_ID as c_int - 1, device) };
        driver.check(call, status)?;
        let text: Vec<u8> = text.into_iter().take_while(|&byte| byte != 0).collect();
        let bus_id = CString::new(text).unwrap_or_default();
        EnergyCounter::open(Nvml::load()?, &bus_id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const NOT_FOUND: Status = 6;

    static USED: AtomicU64 = AtomicU64::new(5_000);

    extern "C" fn init() -> Status {
        0
    }

    extern "C" fn no_driver() -> Status {
        9
    }

    extern "C" fn error_string(status: Status) -> *const c_char {
        let text = match status {
            NOT_FOUND => c"Not Found",
            9 => c"Driver Not Loaded",
            _ => return std::ptr::null(),
        };
        text.as_ptr()
    }

    extern "C" fn by_bus_id(text: *const c_char, device: *mut Handle) -> Status {
        // SAFETY: the caller passes a string and a valid pointer.
        unsafe {
            if CStr::from_ptr(text) != c"00000000:3B:00.0" {
                return NOT_FOUND;
            }
            *device = std::ptr::dangling_mut();
        }
        0
    }

    extern "C" fn energy(_device: Handle, millijoules: *mut u64) -> Status {
        // SAFETY: the caller passes a valid pointer.
        unsafe { *millijoules = USED.fetch_add(250, Ordering::Relaxed) };
        0
    }

    extern "C" fn hidden(_device: Handle, _millijoules: *mut u64) -> Status {
        3
    }

    fn functions(name: &str) -> Option<*const c_void> {
        match name {
            "nvmlInit_v2" => Some(init as *const c_void),
            "nvmlErrorString" => Some(error_string as *const c_void),
            "nvmlDeviceGetHandleByPciBusId_v2" => Some(by_bus_id as *const c_void),
            "nvmlDeviceGetTotalEnergyConsumption" => Some(energy as *const c_void),
            _ => None,
        }
    }

    fn nvml(symbols: impl Fn(&str) -> Option<*const c_void>) -> Result<&'static Nvml, DeviceError> {
        // SAFETY: the functions above have the types of NVML's.
        unsafe { Nvml::new(symbols) }.map(|nvml| &*Box::leak(Box::new(nvml)))
    }

    fn problem(error: Option<DeviceError>) -> (&'static str, String) {
        match error {
            Some(DeviceError::Nvml { call, problem }) => (call, problem),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_counter_of_a_device_is_read() {
        let counter = EnergyCounter::open(nvml(functions).unwrap(), c"00000000:3B:00.0").unwrap();
        let before = counter.millijoules().unwrap();
        assert_eq!(counter.millijoules().unwrap() - before, 250);
    }

    #[test]
    fn what_is_missing_is_named() {
        for absent in ["nvmlInit_v2", "nvmlDeviceGetTotalEnergyConsumption"] {
            let some = |name: &str| functions(name).filter(|_| name != absent);
            let (call, text) = problem(nvml(some).err());
            assert_eq!((call, text.contains("does not have")), (absent, true));
        }
        let stopped = |name: &str| match name {
            "nvmlInit_v2" => Some(no_driver as *const c_void),
            name => functions(name),
        };
        assert_eq!(problem(nvml(stopped).err()), ("nvmlInit_v2", "Driver Not Loaded".to_owned()));
        let other = EnergyCounter::open(nvml(functions).unwrap(), c"00000000:00:00.0");
        assert_eq!(problem(other.err()).1, "Not Found");
        let virtual_gpu = |name: &str| match name {
            "nvmlDeviceGetTotalEnergyConsumption" => Some(hidden as *const c_void),
            name => functions(name),
        };
        let counter = EnergyCounter::open(nvml(virtual_gpu).unwrap(), c"00000000:3B:00.0");
        let expected = ("nvmlDeviceGetTotalEnergyConsumption", "error 3".to_owned());
        assert_eq!(problem(counter.err()), expected, "also errors that have no text");
    }

    #[test]
    fn an_emulated_device_has_no_counter() {
        // SAFETY: the emulator's own function.
        let device = unsafe { Device::emulated(warpseek_cuda_emulator::symbol, 0, None) }.unwrap();
        assert_eq!(problem(device.energy_counter().err()).0, "cuDeviceGetPCIBusId");
    }
}
