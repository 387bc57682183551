//! The energy that a measurement takes: of the host by RAPL, the counters of its processors, and
//! of a GPU by NVML.
//!
//! Counters include what the hardware takes when it is idle, and what other programs use. A
//! counter that cannot be read is no error: the meter keeps the reason, for tables to state.

mod rapl;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use warpseek_console::Failure;
use warpseek_cuda::{Device, EnergyCounter};

use self::rapl::Rapl;

/// Folder in which Linux offers the counters of the host.
const POWERCAP: &str = "/sys/class/powercap";

/// The energy of some passes of the same work.
#[derive(Serialize, Clone, Copy, Debug, PartialEq)]
pub(crate) struct Energy {
    /// Number of passes.
    pub(crate) passes: usize,
    /// Time that all passes took.
    pub(crate) seconds: f64,
    /// Joules of all passes; `None` if the counter cannot be read.
    pub(crate) host_joules: Option<f64>,
    pub(crate) device_joules: Option<f64>,
}

impl Energy {
    /// Returns the joules of all counters that can be read, or `None` if there are none.
    pub(crate) fn joules(&self) -> Option<f64> {
        let known = [self.host_joules, self.device_joules].into_iter().flatten();
        known.reduce(|host, device| host + device).filter(|&joules| joules > 0.0)
    }

    /// Returns the mean power of the host and of the device.
    pub(crate) fn watts(&self) -> [Option<f64>; 2] {
        [self.host_joules, self.device_joules]
            .map(|joules| joules.map(|joules| joules / self.seconds.max(1e-9)))
    }
}

/// The counters of this machine.
pub(crate) struct Meter {
    host: Result<Rapl, String>,
    /// The counter of a GPU, if one is measured.
    device: Option<Result<EnergyCounter, String>>,
}

impl Meter {
    /// Opens the counters of the host, and of a device if there is one.
    pub(crate) fn open(device: Option<&Device>) -> Meter {
        let device = device.map(|device| device.energy_counter().map_err(|e| e.to_string()));
        Meter { host: Rapl::open(Path::new(POWERCAP)), device }
    }

    /// Returns the reasons why counters cannot be read, each with the name of its hardware.
    pub(crate) fn unreadable(&self) -> Vec<String> {
        let host = self.host.as_ref().err().map(|why| format!("host: not readable: {why}"));
        let device = self.device.as_ref().and_then(|counter| counter.as_ref().err());
        let device = device.map(|why| format!("GPU: not readable: {why}"));
        host.into_iter().chain(device).collect()
    }

    /// Repeats `work` for at least this long, at least once, and returns its energy. Returns
    /// `None`, and does not run `work`, if no counter can be read or the time is zero. With
    /// `with_device`, the energy of the GPU counts too.
    pub(crate) fn measure(
        &self,
        least: Duration,
        with_device: bool,
        mut work: impl FnMut() -> Result<(), Failure>,
    ) -> Result<Option<Energy>, Failure> {
        let host = self.host.as_ref().ok();
        let device = self.device.as_ref().filter(|_| with_device);
        let device = device.and_then(|counter| counter.as_ref().ok());
        if least.is_zero() || host.is_none() && device.is_none() {
            return Ok(None);
        }
        let microjoules = || host.map(Rapl::read).transpose().map_err(Failure::broken);
        let millijoules = || device.map(EnergyCounter::millijoules).transpose();
        let (mut before, mut used) = (microjoules()?, 0);
        let (device_before, start) = (millijoules()?, Instant::now());
        let mut passes = 0;
        while passes == 0 || start.elapsed() < least {
            work()?;
            passes += 1;
            // The host's counters wrap around after minutes, so they are read after each pass.
            let after = microjoules()?;
            if let (Some(rapl), Some(before), Some(after)) = (host, &before, &after) {
                used += rapl.used(before, after);
            }
            before = after;
        }
        let seconds = start.elapsed().as_secs_f64();
        let on_device = match (device_before, millijoules()?) {
            (Some(before), Some(after)) => Some(after.saturating_sub(before) as f64 * 1e-3),
            _ => None,
        };
        let host_joules = host.map(|_| used as f64 * 1e-6);
        Ok(Some(Energy { passes, seconds, host_joules, device_joules: on_device }))
    }
}

#[cfg(test)]
impl Meter {
    /// Creates a meter of the counters in a folder, without a GPU.
    fn of_folder(folder: &Path) -> Meter {
        Meter { host: Rapl::open(folder), device: None }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn passes_are_added_up_across_a_wrap_around() {
        let dir = tempfile::tempdir().unwrap();
        rapl::tests::zone(dir.path(), "intel-rapl:0", "package-0", 900_000, 1_000_000);
        let meter = Meter::of_folder(dir.path());
        assert!(meter.unreadable().is_empty());
        let counter = dir.path().join("intel-rapl:0/energy_uj");
        let mut value = 900_000;
        let pass = || {
            value = (value + 300_000) % 1_000_000;
            fs::write(&counter, value.to_string())?;
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        let energy = meter.measure(Duration::from_millis(20), true, pass).unwrap().unwrap();
        assert!(energy.passes > 1, "{energy:?}");
        let joules = energy.host_joules.unwrap();
        assert!((joules - 0.3 * energy.passes as f64).abs() < 1e-9, "{energy:?}");
        assert_eq!((energy.joules(), energy.device_joules), (Some(joules), None));
        assert_eq!(energy.watts(), [Some(joules / energy.seconds), None]);
    }

    #[test]
    fn without_counters_nothing_runs_and_the_reason_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let meter = Meter::of_folder(&dir.path().join("none"));
        let never = || panic!("the work was run");
        assert_eq!(meter.measure(Duration::from_secs(1), true, never).unwrap(), None);
        let [why] = &meter.unreadable()[..] else { panic!("one reason") };
        assert!(why.starts_with("host: not readable: ") && why.contains("none"), "{why}");
    }

    #[test]
    fn joules_that_are_unknown_or_zero_are_left_out() {
        let energy = |host_joules, device_joules| {
            Energy { passes: 1, seconds: 2.0, host_joules, device_joules }.joules()
        };
        assert_eq!(energy(Some(1.0), Some(2.0)), Some(3.0));
        assert_eq!(energy(None, Some(2.0)), Some(2.0));
        assert_eq!(energy(None, None), None);
        assert_eq!(energy(Some(0.0), None), None, "the counter did not move");
    }
}
