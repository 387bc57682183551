//! RAPL, the energy counters of processors, as Linux offers them in `/sys/class/powercap`. AMD's
//! processors have the same files, with Intel's name.

use std::fs;
use std::path::{Path, PathBuf};

/// A counter of microjoules, which starts again from 0 after its range.
struct Zone {
    counter: PathBuf,
    range: u64,
}

/// The counters of all processors of a machine, and of their memory if it has counters of its own.
pub(super) struct Rapl {
    zones: Vec<Zone>,
}

impl Rapl {
    /// Opens the counters in a folder, or says why there are none that can be read.
    pub(super) fn open(folder: &Path) -> Result<Rapl, String> {
        let none = |why: &str| {
            format!(
                "{}: {why}; it needs Linux on hardware with RAPL, which most virtual machines hide",
                folder.display()
            )
        };
        let entries = fs::read_dir(folder).map_err(|error| none(&error.to_string()))?;
        let mut folders: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().is_some_and(|name| is_zone(&name.to_string_lossy())))
            .collect();
        folders.sort();
        let mut zones = Vec::new();
        for path in folders {
            // Cores and graphics are parts of a package, and `psys` is the whole machine: counting
            // them too would count energy twice.
            let name = text(&path.join("name"))?;
            if name.starts_with("package") || name == "dram" {
                let range = number(&path.join("max_energy_range_uj"))?;
                zones.push(Zone { counter: path.join("energy_uj"), range });
            }
        }
        if zones.is_empty() {
            return Err(none("no intel-rapl:* has the counter of a processor"));
        }
        let rapl = Rapl { zones };
        rapl.read()?;
        Ok(rapl)
    }

    /// Returns the values of all counters.
    pub(super) fn read(&self) -> Result<Vec<u64>, String> {
        self.zones.iter().map(|zone| number(&zone.counter)).collect()
    }

    /// Returns the microjoules between two readings, between which each counter started again at
    /// most once.
    pub(super) fn used(&self, before: &[u64], after: &[u64]) -> u64 {
        let zones = self.zones.iter().zip(before.iter().zip(after));
        zones.map(|(zone, (&before, &after))| between(before, after, zone.range)).sum()
    }
}

/// Returns true for the name of a processor's zone, or of a zone inside it. Zones of other
/// interfaces to the same counters, such as `intel-rapl-mmio:0`, have other names.
fn is_zone(name: &str) -> bool {
    name.strip_prefix("intel-rapl:").is_some_and(|rest| !rest.is_empty())
}

/// Returns the difference of two readings of a counter that starts again from 0 after `range`.
fn between(before: u64, after: u64, range: u64) -> u64 {
    match after >= before {
        true => after - before,
        false => range.saturating_sub(before) + after,
    }
}

fn text(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| {
        let fix = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "; run the program as root, or let everyone read the file (chmod a+r)"
            }
            _ => "",
        };
        format!("{}: {error}{fix}", path.display())
    })?;
    Ok(text.trim().to_owned())
}

fn number(path: &Path) -> Result<u64, String> {
    let text = text(path)?;
    let bad = |_| format!("{}: expected a number of microjoules, found `{text}`", path.display());
    text.parse().map_err(bad)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a zone as Linux shows it.
    pub(in super::super) fn zone(folder: &Path, dir: &str, name: &str, value: u64, range: u64) {
        let path = folder.join(dir);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("name"), format!("{name}\n")).unwrap();
        fs::write(path.join("energy_uj"), format!("{value}\n")).unwrap();
        fs::write(path.join("max_energy_range_uj"), format!("{range}\n")).unwrap();
    }

    #[test]
    fn a_counter_that_started_again_has_used_the_rest_of_its_range() {
        assert_eq!(between(100, 250, 1000), 150);
        assert_eq!(between(100, 100, 1000), 0);
        assert_eq!(between(900, 50, 1000), 150);
        assert_eq!(between(1000, 0, 1000), 0);
        assert_eq!(between(u64::MAX, 5, 1000), 5, "a counter beyond its range does not overflow");
    }

    #[test]
    fn processors_and_memory_are_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        for (name, label, value) in [
            ("intel-rapl:0", "package-0", 10),
            ("intel-rapl:0:0", "core", 1_000),
            ("intel-rapl:0:1", "dram", 20),
            ("intel-rapl:1", "package-1", 30),
            ("intel-rapl:2", "psys", 100_000),
            ("intel-rapl-mmio:0", "package-0", 10),
        ] {
            zone(dir.path(), name, label, value, 1_000);
        }
        fs::create_dir(dir.path().join("intel-rapl")).unwrap();
        let rapl = Rapl::open(dir.path()).unwrap();
        assert_eq!(rapl.read().unwrap(), [10, 20, 30]);
        // The second one has started again.
        assert_eq!(rapl.used(&[10, 20, 30], &[15, 5, 30]), 5 + 985);
    }

    #[test]
    fn missing_and_damaged_counters_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let why = |dir: &Path| Rapl::open(dir).err().unwrap();
        assert!(why(&dir.path().join("none")).contains("virtual machines"));
        assert!(why(dir.path()).contains("no intel-rapl:*"), "{}", why(dir.path()));
        zone(dir.path(), "intel-rapl:0", "package-0", 1, 1_000);
        assert!(Rapl::open(dir.path()).is_ok());
        let counter = dir.path().join("intel-rapl:0/energy_uj");
        fs::write(&counter, "many\n").unwrap();
        let found = why(dir.path());
        assert!(found.contains("energy_uj: expected a number of microjoules, found `many`"));
        fs::remove_file(&counter).unwrap();
        assert!(why(dir.path()).contains("energy_uj"));
    }
}
