//! The default memory budget of a build.

use std::fs;
use std::path::{Component, Path};

/// Memory size that is assumed if the machine's cannot be determined.
const UNKNOWN: u64 = 4 << 30;

/// Limits from this size on mean "no limit", which version 1 of cgroups writes as the largest
/// multiple of the page size.
const NO_LIMIT: u64 = 1 << 60;

/// Returns a quarter of the machine's memory, or of the limit of this process's cgroup (of a
/// container, for example) if that is smaller.
pub(crate) fn default_memory() -> usize {
    let usable = usable(Path::new("/proc"), Path::new("/sys/fs/cgroup"));
    usize::try_from(usable / 4).unwrap_or(usize::MAX)
}

/// Returns the smaller of the machine's memory and the limits of the process's cgroups, under
/// these mounts of procfs and of the cgroup file systems.
fn usable(proc: &Path, cgroups: &Path) -> u64 {
    let limits = [machine(proc), cgroup_limit(proc, cgroups)];
    limits.into_iter().flatten().min().unwrap_or(UNKNOWN)
}

fn machine(proc: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc.join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the smallest limit of all cgroups of the process.
fn cgroup_limit(proc: &Path, cgroups: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc.join("self/cgroup")).ok()?;
    let limits = text.lines().filter_map(|line| {
        // The format is HIERARCHY:CONTROLLERS:PATH. Version 2 is hierarchy 0 and has an empty
        // list of controllers.
        let (hierarchy, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        if hierarchy == "0" && controllers.is_empty() {
            smallest(cgroups, path, "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            smallest(&cgroups.join("memory"), path, "memory.limit_in_bytes")
        } else {
            None
        }
    });
    limits.min()
}

/// Returns the smallest limit of a cgroup and its ancestors, up to the root. Missing cgroups are
/// skipped: in a container, the path may be the one that the host uses, while the container's own
/// cgroup is mounted as the root.
fn smallest(root: &Path, path: &str, file: &str) -> Option<u64> {
    let path = path.trim_start_matches('/');
    let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    // A path that leads out of the mount does not name a cgroup below it.
    let path = Path::new(if inside { path } else { "" });
    path.ancestors().filter_map(|path| limit(&root.join(path).join(file))).min()
}

/// Returns the limit in a file, or `None` for "max" and for numbers that mean no limit.
fn limit(file: &Path) -> Option<u64> {
    let bytes = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (bytes < NO_LIMIT).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Creates files in a directory with `proc` and `cgroup`, and returns the usable memory
    /// there.
    fn usable_with(files: &[(&str, &str)]) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        usable(&dir.path().join("proc"), &dir.path().join("cgroup"))
    }

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal:       1048576 kB\nMemFree:        1024 kB\n");

    #[test]
    fn the_machine_is_the_limit_if_there_is_no_other() {
        assert_eq!(usable_with(&[MACHINE]), 1024 * MIB);
        assert_eq!(usable_with(&[]), UNKNOWN);
        assert_eq!(usable_with(&[("proc/meminfo", "MemTotal: lots\n")]), UNKNOWN);
        let v2 = ("proc/self/cgroup", "0::/a\n");
        for none in ["max\n", "9223372036854771712\n", "", "x", "4294967296\n"] {
            assert_eq!(usable_with(&[MACHINE, v2, ("cgroup/a/memory.max", none)]), 1024 * MIB);
        }
    }

    #[test]
    fn version_2_goes_by_the_cgroup_and_all_above_it() {
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        let (root, a, b) = ("cgroup/memory.max", "cgroup/a/memory.max", "cgroup/a/b/memory.max");
        let (small, large) = ("104857600\n", "209715200\n");
        assert_eq!(usable_with(&[MACHINE, v2, (b, small)]), 100 * MIB);
        assert_eq!(usable_with(&[MACHINE, v2, (a, small), (b, large)]), 100 * MIB);
        assert_eq!(usable_with(&[MACHINE, v2, (a, large), (b, small)]), 100 * MIB);
        assert_eq!(
            usable_with(&[MACHINE, v2, (a, "max\n"), (b, "max\n"), (root, large)]),
            200 * MIB
        );
        // The limits of other cgroups do not matter.
        assert_eq!(usable_with(&[MACHINE, v2, ("cgroup/c/memory.max", small)]), 1024 * MIB);
        assert_eq!(usable_with(&[v2, (b, small)]), 100 * MIB);
    }

    #[test]
    fn paths_that_are_not_mounted_leave_the_root() {
        let root = ("cgroup/memory.max", "104857600\n");
        for path in ["0::/\n", "0::/docker/0123\n", "0::/../x\n"] {
            let other = ("x/memory.max", "1\n");
            assert_eq!(usable_with(&[MACHINE, ("proc/self/cgroup", path), root, other]), 100 * MIB);
        }
    }

    #[test]
    fn version_1_has_a_hierarchy_of_its_own() {
        let v1 = ("proc/self/cgroup", "5:cpu,cpuacct:/c\n4:hugetlb,memory:/a/b\n0::/\n");
        let limit = |at: &'static str, bytes: &'static str| (at, bytes);
        let a = limit("cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
        let none = limit("cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        let cpu = limit("cgroup/memory/c/memory.limit_in_bytes", "1\n");
        assert_eq!(usable_with(&[MACHINE, v1, a, none, cpu]), 100 * MIB);
        assert_eq!(usable_with(&[MACHINE, v1, none, cpu]), 1024 * MIB);
    }
}
