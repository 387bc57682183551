//! Tests of the vector code for AArch64, compiled for that architecture and run by an emulator.

use std::path::Path;
use std::process::Command;

use crate::cargo;
use crate::programs::found;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATORS: [&str; 2] = ["qemu-aarch64", "qemu-aarch64-static"];
/// Statically linked programs need no libraries of the other architecture.
const FLAGS: &str = "-D warnings -C target-feature=+crt-static";

/// Runs the tests of the crates with NEON code. An error lists the missing tools and how to get
/// them.
pub(crate) fn tests() -> Result<(), String> {
    let (library, linker, emulator) = (has_library(), found(&[LINKER]), found(&EMULATORS));
    let missing: Vec<String> = [
        (library, format!("Rust's library for {TARGET}: `rustup target add {TARGET}`")),
        (
            linker.is_some(),
            format!("{LINKER}: Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross"),
        ),
        (emulator.is_some(), format!("{}: Debian's qemu-user", EMULATORS[0])),
    ]
    .into_iter()
    .filter_map(|(there, what)| (!there).then_some(what))
    .collect();
    let Some(emulator) = emulator.filter(|_| missing.is_empty()) else {
        return Err(format!("cannot test the NEON code; missing:\n  {}", missing.join("\n  ")));
    };
    let env = [
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER),
        ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", &emulator.to_string_lossy()),
        ("RUSTFLAGS", FLAGS),
    ];
    let crates = ["-pwarpseek-codec", "-pwarpseek-exec-cpu"];
    cargo(&[&["test", "--target", TARGET, "--lib", "--locked"], &crates[..]].concat(), &env)
}

/// Returns true if Rust's standard library for the target is installed.
fn has_library() -> bool {
    let folder =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    folder.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
