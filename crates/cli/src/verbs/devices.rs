//! `warpseek devices`: lists the GPUs of the machine, tries each out, and reports problems.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek::devices::{Device, DeviceError, DeviceInfo, bandwidth, list_devices};

use warpseek_console::Failure;
use warpseek_console::terminal::{Theme, bytes, table};

/// List GPUs and report missing requirements
///
/// The command opens each GPU, compiles a kernel and measures the speed of copies. It succeeds even
/// if there is no GPU.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek devices
  warpseek devices --json

Environment:
  WARPSEEK_NVRTC        path of the NVRTC library, if it is not in a standard location
  WARPSEEK_CACHE        directory of compiled kernels and calibrations [default: the user's cache directory]
  CUDA_VISIBLE_DEVICES  numbers of the visible GPUs")]
pub(crate) struct Options {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    ordinal: u32,
    name: String,
    memory_bytes: u64,
    free_bytes: Option<u64>,
    l2_bytes: u64,
    shared_bytes_per_block: u32,
    multiprocessors: u32,
    compute_capability: String,
    /// The CUDA version that the driver supports.
    cuda: String,
    nvrtc: Option<String>,
    copy_bytes_per_second: Option<f64>,
    usable: bool,
    problem: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (devices, problem) = match list_devices() {
        Ok(found) => (found.into_iter().map(report).collect(), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let driver = driver_release();
    let mut out = std::io::stdout().lock();
    if options.json {
        let all = json!({ "driver": driver, "devices": devices, "problem": problem });
        writeln!(out, "{all:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(problem) = problem {
        writeln!(out, "no device: {problem}")?;
    }
    for (i, device) in devices.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        print(device, driver.as_deref(), &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes a device and measures it.
fn report(info: DeviceInfo) -> Report {
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let mut report = Report {
        ordinal: info.ordinal,
        memory_bytes: info.memory,
        free_bytes: None,
        l2_bytes: info.l2,
        shared_bytes_per_block: info.shared_per_block,
        multiprocessors: info.multiprocessors,
        compute_capability: version(info.capability),
        cuda: version(info.cuda),
        nvrtc: None,
        copy_bytes_per_second: None,
        usable: false,
        problem: None,
        name: info.name,
    };
    let mut try_out = || -> Result<(), DeviceError> {
        let device = Device::open(info.ordinal, None)?;
        report.free_bytes = Some(device.available()?);
        report.nvrtc = Some(version(device.compiler_version()?));
        report.copy_bytes_per_second = Some(bandwidth(&device)?);
        Ok(())
    };
    report.problem = try_out().err().map(|error| error.to_string());
    report.usable = report.problem.is_none();
    report
}

/// Returns the release of the driver, which the system knows but CUDA does not report.
fn driver_release() -> Option<String> {
    let text = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(text.trim().to_owned())
}

fn print(device: &Report, driver: Option<&str>, out: &mut impl Write) -> std::io::Result<()> {
    let theme = Theme::stdout();
    let title = format!("GPU {}: {}", device.ordinal, device.name);
    writeln!(out, "{}", theme.paint(theme.strong, title))?;
    let free = device.free_bytes.map_or(String::new(), |free| format!(", {} free", bytes(free)));
    let driver = driver.map_or(String::new(), |release| format!("{release}, "));
    let missing = || "-".to_owned();
    let speed = |rate: f64| format!("{:.0} GB/s read and written", rate / 1e9);
    let row = |name: &str, value: String| vec![format!("  {name}"), value];
    let rows = [
        row("memory", bytes(device.memory_bytes) + &free),
        row("copies", device.copy_bytes_per_second.map_or_else(missing, speed)),
        row("multiprocessors", device.multiprocessors.to_string()),
        row("compute capability", device.compute_capability.clone()),
        row("L2 cache", bytes(device.l2_bytes)),
        row("driver", format!("{driver}CUDA {}", device.cuda)),
        row("NVRTC", device.nvrtc.clone().unwrap_or_else(missing)),
        row("usable", if device.usable { "yes" } else { "no" }.to_owned()),
    ];
    table(&rows, out)?;
    match &device.problem {
        Some(problem) => writeln!(out, "  {}: {problem}", theme.paint(theme.bad, "problem")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        report(DeviceInfo {
            // No machine has a device with this number, so opening it fails.
            ordinal: 4_000_000,
            name: "Test GPU".into(),
            memory: 3 << 30,
            l2: 4 << 20,
            multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            shared_per_block: 227 << 10,
            capability: (9, 0),
            cuda: (12, 8),
            emulated: false,
        })
    }

    #[test]
    fn a_device_that_cannot_be_opened_is_reported_with_the_reason() {
        let report = sample();
        assert!(!report.usable && report.copy_bytes_per_second.is_none());
        let mut out = Vec::new();
        print(&report, Some("580.1"), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("GPU 4000000: Test GPU") && out.contains("580.1, CUDA 12.8"), "{out}");
        assert!(
            out.contains("problem: ") && out.contains(report.problem.as_ref().unwrap()),
            "{out}"
        );
    }

    #[test]
    fn a_working_device_is_reported_with_its_speed() {
        let report = Report {
            nvrtc: Some("12.9".into()),
            copy_bytes_per_second: Some(4.3e12),
            free_bytes: Some(2 << 30),
            usable: true,
            problem: None,
            ..sample()
        };
        let mut out = Vec::new();
        print(&report, None, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        for part in ["3.0 GiB, 2.0 GiB free", "4300 GB/s", "12.9", "yes"] {
            assert!(out.contains(part), "{part}: {out}");
        }
    }
}
