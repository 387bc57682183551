//! Compiles the kernels of every GPU crate, and those of this crate's own tests, for the host.
//!
//! The launcher of a kernel needs the type of its function, which only the compiler knows. So this
//! script looks only for the names of kernels, in preprocessed text, where kernels defined by
//! macros are visible too.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Crates that have kernels.
const CRATES: [&str; 6] =
    ["build-gpu", "cuda", "dictionary", "exec-gpu", "exec-gpu-papers", "ngram"];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let kernels = CRATES.map(|name| here.join(format!("../{name}/src/kernels")));
    let own = here.join("tests/kernels");
    let cpp = here.join("cpp");
    for folder in kernels.iter().chain([&own, &cpp]) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed=build.rs");

    let mut files = Vec::new();
    let mut tables = String::from("#include \"table.h\"\n");
    let mut list = String::new();
    for source in kernels.iter().chain([&own]).flat_map(|folder| sources(folder)) {
        let name = source.parent().and_then(Path::file_name).expect("a folder").to_string_lossy();
        let file = out.join(format!("{name}.cpp"));
        let include = format!("#include \"{}\"\n", source.display());
        // Preprocess once to find the kernels, before any CUDA keywords are replaced.
        let probe = out.join(format!("{name}.probe.cpp"));
        write_file(&probe, &include);
        let text = compiler(&kernels).file(&probe).expand();
        let text = String::from_utf8_lossy(&text);
        let entries: String = kernels_in(&text)
            .map(|(kernel, bounds)| format!("    KERNEL({name}, {kernel}, ({bounds})),\n"))
            .collect();
        // Two sources may have kernels with the same name, and `extern "C"` names ignore
        // namespaces.
        let renamed: String = kernels_in(&text)
            .map(|(kernel, _)| format!("#define {kernel} {name}_has_{kernel}\n"))
            .collect();
        // Each source is in its own namespace, so that statics in templates belong to the file,
        // too, and can be placed in its section of shared memory.
        let text = format!(
            "#define SHARED_SECTION \"emulated_shared_{name}\"\n#include \"cuda.h\"\n{renamed}namespace {{\n{include}}}\n\
             #include \"table.h\"\nSHARED_BOUNDS({name})\n\
             extern const Kernel kernels_{name}[] = {{\n{entries}    END_OF_KERNELS\n}};\n"
        );
        write_file(&file, &text);
        files.push(file);
        writeln!(tables, "extern const Kernel kernels_{name}[];").expect("memory");
        writeln!(list, "    {{\"{name}\", kernels_{name}}},").expect("memory");
    }
    let table = out.join("table.cpp");
    write_file(
        &table,
        &format!(
            "{tables}extern \"C\" const Source emulated_sources[] = {{\n{list}    {{nullptr, nullptr}}\n}};\n"
        ),
    );

    let mut build = compiler(&kernels);
    build
        .include(&cpp)
        // Trap operations that are undefined in C++ and would go unnoticed on the host, or that
        // behave differently on the device.
        .flag(
            "-fsanitize=alignment,bounds,shift-exponent,integer-divide-by-zero,float-cast-overflow",
        )
        .flag("-fsanitize-undefined-trap-on-error")
        // Frames larger than a page must not jump over the guard page below the stack.
        .flag("-fstack-clash-protection")
        .files(&files)
        .compile("emulated_kernels");
    let mut build = compiler(&kernels);
    build.include(&cpp).file(cpp.join("runtime.cpp")).file(&table).compile("cuda_emulator");
}

fn compiler(kernels: &[PathBuf]) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .includes(kernels.iter().map(|folder| folder.join("common")))
        .define("EMULATED", None)
        // IEEE operations, never fused, like `--fmad=false` on the device.
        .flag("-ffp-contract=off")
        // Kernels load bytes as vectors.
        .flag("-fno-strict-aliasing")
        .flag("-U_FORTIFY_SOURCE")
        .flag("-Wno-unknown-pragmas")
        .flag("-Wno-unused-function")
        .flag("-Wno-unused-parameter");
    build
}

/// Returns every `*/kernel.cu` in a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join("kernel.cu"))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    found
}

fn write_file(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Returns the names of the kernels in a preprocessed source, each with the largest number of
/// threads in a block.
fn kernels_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut parts = text.split("__global__");
    let mut before = parts.next().unwrap_or_default();
    parts.map(move |rest| {
        let c_name = before.trim_end().ends_with("extern \"C\"");
        before = rest;
        let (mut rest, mut bounds) = (rest, "1024");
        if let Some((_, after)) = head(rest).split_once("__launch_bounds__") {
            let (inside, _) = after.split_once(')').unwrap_or_default();
            bounds = inside.trim_start().trim_start_matches('(').split(',').next().unwrap_or("1024");
            rest = &rest[rest.find("__launch_bounds__").unwrap_or(0)..];
            rest = &rest[rest.find(')').map_or(0, |at| at + 1)..];
        }
        let name = rest.split('(').next().unwrap_or_default().split_whitespace().last().unwrap_or_default();
        assert!(c_name, "kernel `{name}` must be declared `extern \"C\" __global__`, so that it can be found by name");
        (name, bounds)
    })
}

/// Returns a declaration up to its body.
fn head(text: &str) -> &str {
    text.split('{').next().unwrap_or_default()
}
