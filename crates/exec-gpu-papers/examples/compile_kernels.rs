//! Compiles every kernel, or those of the sources named, for the given architectures (75 80 90
//! 100), without a GPU, and prints registers and spills.
//!
//!     WARPSEEK_NVRTC=.../libnvrtc.so.12 \
//!         cargo run -p warpseek-exec-gpu-papers --example compile_kernels -- 75 80 90 100

use std::num::NonZero;
use std::process::ExitCode;

use warpseek_build_gpu::kernels::ALL as BUILDING;
use warpseek_cuda::kernels::{ALL as PRIMITIVES, common};
use warpseek_cuda::{Architecture, Compiler, DeviceError, Source};
use warpseek_dictionary::kernels::ALL as DICTIONARIES;
use warpseek_exec::Pool;
use warpseek_exec_gpu::kernels::ALL as SERVING;
use warpseek_exec_gpu_papers::kernels::ALL as PAPERS;
use warpseek_ngram::kernels::ALL as NGRAMS;

/// The emulator's test kernels, which must be valid CUDA too, or they would prove little.
const PROBES: Source = Source {
    name: "probes",
    text: include_str!("../../cuda-emulator/tests/kernels/probes/kernel.cu"),
    headers: &[common::TYPES, common::WARP, common::SCAN],
};

/// The kernels for the tests of primitives.
const LOOK_BACK: Source = Source {
    name: "look_back",
    text: include_str!("../../cuda-emulator/tests/kernels/look_back/kernel.cu"),
    headers: &[common::TYPES, common::WARP, common::LOOK_BACK],
};
const SORT_WORDS: Source = Source {
    name: "sort_words",
    text: include_str!("../../cuda-emulator/tests/kernels/sort_words/kernel.cu"),
    headers: &[common::TYPES, common::MERGE_SORT],
};

/// The architecture for which kernels that count bytes are compiled.
const COUNTED_FOR: u32 = 90;

fn main() -> ExitCode {
    let (mut architectures, mut names) = (Vec::new(), Vec::new());
    for arg in std::env::args().skip(1) {
        match arg.parse() {
            Ok(architecture) => architectures.push(architecture),
            Err(_) => names.push(arg),
        }
    }
    match compile(&architectures, &names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compile(architectures: &[u32], names: &[String]) -> Result<(), DeviceError> {
    let compiler = Compiler::load(12)?;
    let (major, minor) = compiler.version();
    println!("NVRTC {major}.{minor}");
    for architecture in architectures.iter().copied().map(Architecture) {
        if !compiler.architectures().contains(&architecture) {
            let log = format!("NVRTC {major}.{minor} does not know it");
            let (source_name, architecture) = ("all".into(), architecture.to_string());
            return Err(DeviceError::Compile { source_name, architecture, log });
        }
        let mut options = compiler.options(architecture);
        options.push("--ptxas-options=-v".into());
        // Kernels that count bytes are for benchmarks and take long to compile: one architecture
        // is enough.
        let wanted = |source: &&Source| {
            !source.name.starts_with("counted_") || architecture == Architecture(COUNTED_FOR)
        };
        let tests: &[Source] = &[PROBES, SORT_WORDS, LOOK_BACK];
        let all = [PRIMITIVES, DICTIONARIES, BUILDING, SERVING, PAPERS, NGRAMS, tests];
        let named =
            |source: &&Source| names.is_empty() || names.iter().any(|name| name == source.name);
        let sources: Vec<&Source> =
            all.into_iter().flatten().filter(wanted).filter(named).collect();
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let compile =
            |(): &mut (), source: &&Source| compiler.compile(source, architecture, &options);
        let images = Pool::shared(threads).map(&sources, || (), compile);
        for (source, image) in sources.iter().zip(images) {
            let image = image?;
            println!("{architecture} {}: {} bytes", source.name, image.bytes.len());
            usage(&image.log);
        }
    }
    // A GPU newer than the compiler gets PTX, which its driver compiles further.
    let future = Architecture(999);
    let image = compiler.compile(&PRIMITIVES[0], future, &compiler.options(future))?;
    let is_ptx = image.bytes.ends_with(b"\0") && image.bytes.windows(7).any(|w| w == b".target");
    assert!(is_ptx, "{future} must get PTX");
    Ok(())
}

/// Prints registers and spills from the assembler's report, which has a kernel's name in one line
/// and its usage in the next ones.
fn usage(log: &str) {
    let mut kernel = "";
    let mut spills = "";
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().unwrap_or(rest);
        } else if line.contains("spill") {
            spills = line.trim();
        } else if let Some((_, used)) = line.split_once("Used ") {
            println!("    {kernel}: {used}; {spills}");
        } else if line.contains("warning") {
            println!("    {line}");
        }
    }
}
