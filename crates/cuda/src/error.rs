//! Errors of devices, with messages that say what is missing and how to get it.

use std::fmt::Write;
use std::time::Duration;

/// The cause of a failure, which decides what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The query, or its batch, needs more than there is. Other queries may still be answered.
    Query,
    /// The device or its driver failed, or hangs. It answers nothing until all of its handles
    /// have been dropped and it is opened again.
    Device,
    /// There is no device, or it cannot be used with the current setup, or the index does not fit
    /// into its memory. Opening it again changes nothing.
    Setup,
}

/// An error of a device. Messages say what is missing and how to get it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The driver's library is not on this machine.
    #[error(
        "no NVIDIA driver: found none of {}; install the driver of your GPU, or let the container see it (docker run --gpus all)",
        tried.join(", ")
    )]
    NoDriver {
        /// The names tried.
        tried: Vec<String>,
    },
    /// The driver is too old.
    #[error(
        "the NVIDIA driver is too old: {what}; CUDA 12.0 is needed, which comes with driver 525"
    )]
    OldDriver {
        /// The missing feature.
        what: String,
    },
    /// There is a driver but no device.
    #[error(
        "the NVIDIA driver sees no GPU; check nvidia-smi and the variable CUDA_VISIBLE_DEVICES"
    )]
    NoDevice,
    /// There are devices, but not the one requested.
    #[error("there is no GPU {ordinal}; they are numbered from 0, and there are {count}")]
    NoSuchDevice {
        /// The number requested.
        ordinal: u32,
        /// Number of devices.
        count: u32,
    },
    /// The device lacks features that the kernels use.
    #[error(
        "{name} has compute capability {}.{}; 7.5 is needed (Turing, 2018, or later); the CPU gives the same hits",
        capability.0, capability.1
    )]
    OldDevice {
        /// Name of the device.
        name: String,
        /// Compute capability of the device.
        capability: (u32, u32),
    },
    /// The run-time compiler is not on this machine.
    #[error(
        "no NVRTC, the compiler of kernels: found none of {}; install CUDA 12 or 13, or run `pip install nvidia-cuda-nvrtc-cu12` and set WARPSEEK_NVRTC to the path of the libnvrtc.so.12 it brings",
        tried.join(", ")
    )]
    NoCompiler {
        /// The names tried.
        tried: Vec<String>,
    },
    /// NVRTC refused a kernel.
    #[error(
        "kernel `{source_name}` does not compile for {architecture}; set WARPSEEK_NVRTC to another libnvrtc.so.12, or search on the CPU, which gives the same hits: {log}"
    )]
    Compile {
        /// The name of the source.
        source_name: String,
        /// The architecture it was compiled for.
        architecture: String,
        /// NVRTC's log.
        log: String,
    },
    /// The folders listed in WARPSEEK_KERNELS lack a file.
    #[error(
        "{path}: {problem}; WARPSEEK_KERNELS is a list of folders as in PATH: `crates/cuda/src/kernels:crates/exec-gpu/src/kernels:crates/exec-gpu-papers/src/kernels`"
    )]
    Sources {
        /// The file.
        path: String,
        /// The reason why it cannot be read.
        problem: String,
    },
    /// The driver does not load what NVRTC compiled.
    #[error(
        "the driver does not load a compiled kernel: {problem}; update the driver, or set WARPSEEK_NVRTC to an NVRTC no newer than CUDA {}.{}, which is what the driver supports",
        cuda.0, cuda.1
    )]
    Refused {
        /// The driver's description.
        problem: String,
        /// The CUDA version that the driver supports.
        cuda: (u32, u32),
    },
    /// The index does not fit into the device's memory. This is known before anything is copied.
    #[error("{}", too_large(*needed, *available, *budget))]
    TooLarge {
        /// Minimum number of bytes that the index takes.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// True if the budget is too small, false if the device is.
        budget: bool,
    },
    /// The host cannot lock any more memory for copies.
    #[error(
        "the system refuses to lock {} of memory for copies: {problem}; end other programs, raise the limit of locked memory (ulimit -l, docker run --ulimit memlock=-1), or search on the CPU, which gives the same hits",
        mib(*asked)
    )]
    HostMemory {
        /// Bytes requested.
        asked: u64,
        /// The driver's description.
        problem: String,
    },
    /// The memory budget or the device's memory is used up.
    #[error("{}", out_of_memory(*asked, *used, *available, *budget))]
    OutOfMemory {
        /// Bytes requested.
        asked: u64,
        /// Bytes this process holds on the device.
        used: u64,
        /// Bytes available.
        available: u64,
        /// True if the budget is used up, false if the device's memory is.
        budget: bool,
    },
    /// A kernel needs more shared memory than a block of threads can have on the device.
    #[error(
        "kernel `{kernel}` needs {asked} bytes of shared memory per block, and the device has {most}; the CPU answers this query with the same hits"
    )]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// Bytes requested.
        asked: u32,
        /// Bytes that a block can have.
        most: u32,
    },
    /// The kernel does not accept the arguments or the grid of a launch.
    #[error("kernel `{kernel}` cannot be launched: {problem}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// The problem.
        problem: String,
    },
    /// A kernel failed while it ran. The device handle is unusable afterwards.
    #[error(
        "{} failed on the device: {problem}; `--device cpu` gives the same hits without it",
        kernels(ran)
    )]
    Kernel {
        /// The kernels that may have caused it, in the order of their launches.
        ran: Vec<String>,
        /// The driver's description.
        problem: String,
    },
    /// Work did not end within the time limit. The device handle is unusable afterwards, and so
    /// are other handles of that device in this process: this process cannot stop the work that
    /// runs there.
    #[error(
        "{} did not end within {limit:?}; the GPU hangs, or has far too much to do: end this program before the GPU is used again, see nvidia-smi and dmesg; `--device cpu` gives the same hits without it",
        kernels(ran)
    )]
    Hung {
        /// The kernels that may have caused it, in the order of their launches.
        ran: Vec<String>,
        /// Time that the caller waited.
        limit: Duration,
    },
    /// An operation on host memory was requested while a graph is recorded.
    #[error(
        "{what} cannot be recorded in a graph: only launches, fills and copies on the device can"
    )]
    Recording {
        /// The operation.
        what: &'static str,
    },
    /// NVML, which reads the energy counters of devices, is not on this machine.
    #[error(
        "no NVML, which comes with the NVIDIA driver: found none of {}; let the container see it (docker run --gpus all, with NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
        tried.join(", ")
    )]
    NoNvml {
        /// The names tried.
        tried: Vec<String>,
    },
    /// The energy counter of a device cannot be read.
    #[error(
        "the energy of the GPU cannot be read: {call} failed: {problem}; a virtual or emulated GPU may have no counter"
    )]
    Nvml {
        /// The function.
        call: &'static str,
        /// The library's description.
        problem: String,
    },
    /// Any other failure of the driver.
    #[error(
        "{call} failed: {problem}; nvidia-smi and dmesg may say more; `--device cpu` gives the same hits without a GPU"
    )]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The driver's description.
        problem: String,
    },
}

impl DeviceError {
    /// Returns true if the device has too little memory, detected before or during allocation.
    pub fn is_short(&self) -> bool {
        matches!(self, DeviceError::OutOfMemory { .. } | DeviceError::TooLarge { .. })
    }

    /// Returns the cause of the error.
    pub fn fault(&self) -> Fault {
        match self {
            DeviceError::HostMemory { .. }
            | DeviceError::OutOfMemory { .. }
            | DeviceError::SharedMemory { .. } => Fault::Query,
            DeviceError::Launch { .. }
            | DeviceError::Kernel { .. }
            | DeviceError::Hung { .. }
            | DeviceError::Recording { .. }
            | DeviceError::Driver { .. } => Fault::Device,
            DeviceError::NoDriver { .. }
            | DeviceError::OldDriver { .. }
            | DeviceError::NoDevice
            | DeviceError::NoSuchDevice { .. }
            | DeviceError::OldDevice { .. }
            | DeviceError::NoCompiler { .. }
            | DeviceError::Compile { .. }
            | DeviceError::Sources { .. }
            | DeviceError::Refused { .. }
            | DeviceError::NoNvml { .. }
            | DeviceError::Nvml { .. }
            | DeviceError::TooLarge { .. } => Fault::Setup,
        }
    }
}

fn out_of_memory(asked: u64, used: u64, available: u64, budget: bool) -> String {
    let mut text = String::from(if budget {
        "the budget of GPU memory is used up"
    } else {
        "the GPU is out of memory"
    });
    let _ =
        write!(text, ": {} requested, {} left, {} in use; ", mib(asked), mib(available), mib(used));
    text += if budget {
        "raise --gpu-memory"
    } else {
        "end other programs on the GPU, request fewer hits, or use `--device cpu`"
    };
    text
}

fn too_large(needed: u64, available: u64, budget: bool) -> String {
    let (needed, available) = (mib(needed), mib(available));
    if budget {
        format!(
            "the index takes {needed} of GPU memory at least, and --gpu-memory leaves {available}; raise it, or use `--device cpu`"
        )
    } else {
        format!(
            "the index takes {needed} of GPU memory at least, and {available} are free; end other programs on the GPU, use one with more memory, or `--device cpu`"
        )
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn kernels(ran: &[String]) -> String {
    match ran {
        [] => "work".to_owned(),
        [one] => format!("kernel `{one}`"),
        several => format!("one of the kernels `{}`", several.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one error of each kind.
    fn all() -> Vec<(DeviceError, Fault)> {
        let text = String::new;
        let sizes = (0, 0, 0);
        let (asked, used, available) = sizes;
        vec![
            (DeviceError::NoDriver { tried: Vec::new() }, Fault::Setup),
            (DeviceError::OldDriver { what: text() }, Fault::Setup),
            (DeviceError::NoDevice, Fault::Setup),
            (DeviceError::NoSuchDevice { ordinal: 7, count: 1 }, Fault::Setup),
            (DeviceError::OldDevice { name: text(), capability: (6, 1) }, Fault::Setup),
            (DeviceError::NoCompiler { tried: Vec::new() }, Fault::Setup),
            (
                DeviceError::Compile { source_name: text(), architecture: text(), log: text() },
                Fault::Setup,
            ),
            (DeviceError::Sources { path: text(), problem: text() }, Fault::Setup),
            (DeviceError::Refused { problem: text(), cuda: (12, 0) }, Fault::Setup),
            (DeviceError::NoNvml { tried: Vec::new() }, Fault::Setup),
            (DeviceError::Nvml { call: "x", problem: text() }, Fault::Setup),
            (DeviceError::TooLarge { needed: 2, available: 1, budget: true }, Fault::Setup),
            (DeviceError::HostMemory { asked, problem: text() }, Fault::Query),
            (DeviceError::OutOfMemory { asked, used, available, budget: false }, Fault::Query),
            (DeviceError::SharedMemory { kernel: text(), asked: 2, most: 1 }, Fault::Query),
            (DeviceError::Launch { kernel: text(), problem: text() }, Fault::Device),
            (DeviceError::Kernel { ran: Vec::new(), problem: text() }, Fault::Device),
            (DeviceError::Hung { ran: Vec::new(), limit: Duration::ZERO }, Fault::Device),
            (DeviceError::Recording { what: "x" }, Fault::Device),
            (DeviceError::Driver { call: "x", problem: text() }, Fault::Device),
        ]
    }

    #[test]
    fn faults_by_variant() {
        for (error, fault) in all() {
            assert_eq!(error.fault(), fault, "{error:?}");
            let text = error.to_string();
            assert!(!text.ends_with('.') && !text.is_empty(), "{text}");
        }
    }
}
