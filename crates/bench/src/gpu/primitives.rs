//! The `--primitives` part of `bench gpu`: the primitives that other kernels are composed of,
//! next to their counterparts in CuPy if that is installed.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::json;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, note, table};
use warpseek_cuda::kernels::compact::Compact;
use warpseek_cuda::kernels::copy::bandwidth;
use warpseek_cuda::kernels::load_balance::LoadBalance;
use warpseek_cuda::kernels::merge_sort::MergeSort;
use warpseek_cuda::kernels::radix_sort::RadixSort;
use warpseek_cuda::kernels::runs::Runs;
use warpseek_cuda::kernels::scan::Scan;
use warpseek_cuda::{Device, DeviceError, Stream};

use super::Options;
use crate::hardware;
use crate::statistics::median;

const SCRIPT: &str = include_str!("../../../../scripts/cupy_primitives.py");

/// Measurements of one primitive.
#[derive(Serialize)]
struct Cell {
    name: &'static str,
    seconds: f64,
    values_per_s: f64,
    /// Rate of the bytes that the primitive must at least read and write, relative to the rate of
    /// copies on the device; `None` if that number of bytes is not obvious.
    of_copy: Option<f64>,
    cupy_seconds: Option<f64>,
}

/// A line that the script prints.
#[derive(Deserialize)]
struct Peer {
    name: String,
    seconds: f64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let n = options.values;
    let device = Device::open(options.gpu, None)?;
    let copy = bandwidth(&device)?;
    let mut cells = measure(&device, n, options.rounds, copy)?;
    let peers = cupy(options, n)?;
    for cell in &mut cells {
        cell.cupy_seconds = peers.get(cell.name).copied();
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        let facts = json!({"hardware": hardware(), "GPU": device.info().name, "values": n});
        writeln!(out, "{:#}", json!({"facts": facts, "primitives": cells}))?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{}; {} random values, medians of {} rounds; copies on the device read and write {:.2} TB/s",
        device.info().name,
        count(n as u64),
        options.rounds,
        copy / 1e12
    )?;
    let head = ["primitive", "ms", "10^9 values/s", "of copy", "CuPy ms", "CuPy by ours"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in &cells {
        let peer = |f: &dyn Fn(f64) -> String| cell.cupy_seconds.map_or("-".to_owned(), f);
        rows.push(vec![
            cell.name.to_owned(),
            format!("{:.2}", cell.seconds * 1e3),
            format!("{:.2}", cell.values_per_s / 1e9),
            cell.of_copy.map_or("-".to_owned(), |part| format!("{:.0}%", 100.0 * part)),
            peer(&|seconds| format!("{:.2}", seconds * 1e3)),
            peer(&|seconds| format!("{:.1}", seconds / cell.seconds)),
        ]);
    }
    table(&rows, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns CuPy's times by name. If CuPy cannot be used, prints a note and returns no times.
fn cupy(options: &Options, n: usize) -> Result<HashMap<String, f64>, Failure> {
    let ran = Command::new(&options.python)
        .args(["-c", SCRIPT, &n.to_string(), &options.rounds.to_string()])
        .output();
    let ran = match ran {
        Ok(ran) if ran.status.success() => ran,
        Ok(ran) => {
            note(format!(
                "not compared with CuPy: {}",
                String::from_utf8_lossy(&ran.stderr).trim()
            ));
            return Ok(HashMap::new());
        }
        Err(error) => {
            note(format!("not compared with CuPy: {}: {error}", options.python));
            return Ok(HashMap::new());
        }
    };
    let lines = String::from_utf8_lossy(&ran.stdout);
    let peer = |line: &str| {
        let peer: Peer = serde_json::from_str(line)?;
        Ok((peer.name, peer.seconds))
    };
    lines.lines().map(peer).collect::<Result<_, serde_json::Error>>().map_err(|error| {
        Failure::user(format!("cannot parse the output of the CuPy script: {error}"))
    })
}

/// Returns a number that looks random but is the same in every run.
fn mixed(i: u64) -> u64 {
    let mut x = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn measure(device: &Device, n: usize, rounds: usize, copy: f64) -> Result<Vec<Cell>, Failure> {
    let stream = device.stream()?;
    let random: Vec<u64> = (0..n as u64).map(mixed).collect();
    let keys: Vec<u32> = random.iter().map(|&x| x as u32).collect();
    let source = device.upload(&stream, &keys)?;
    let wide_source = device.upload(&stream, &random)?;
    let mut sorted: Vec<u32> = random.iter().map(|x| (x % (n as u64 / 8).max(1)) as u32).collect();
    sorted.sort_unstable();
    let mut starts: Vec<u32> = (0..n as u32).collect();
    starts.retain(|&i| i == 0 || sorted[i as usize] != sorted[i as usize - 1]);
    let (sorted, starts) = (device.upload(&stream, &sorted)?, device.upload(&stream, &starts)?);
    let bits = device.upload(&stream, &keys[..n.div_ceil(32)])?;
    drop((random, keys));
    let new = || device.buffer::<u32>(n);
    let (a, b, c, d) = (new()?, new()?, new()?, new()?);
    let (wide_a, wide_b) = (device.buffer::<u64>(n)?, device.buffer::<u64>(n)?);
    let scratch_len = [
        Scan::scratch_len(n),
        Compact::scratch_len(n),
        RadixSort::scratch_len(n),
        RadixSort::scratch_len_u64(n),
        MergeSort::<u64>::scratch_len(n),
        Runs::scratch_len(n),
    ];
    let scratch = device.buffer::<u32>(scratch_len.into_iter().max().unwrap_or(0))?;
    let (scan, compact, radix) =
        (Scan::new(device)?, Compact::new(device)?, RadixSort::new(device)?);
    let (merge, runs, balance) =
        (MergeSort::new(device)?, Runs::new(device)?, LoadBalance::new(device)?);
    let timer = Timer { stream: &stream, n, rounds, copy };
    let refill = || {
        stream.copy(&source, &a)?;
        stream.copy(&source, &c)
    };
    let refill_wide = || stream.copy(&wide_source, &wide_a);
    let nothing = || Ok(());
    let passes = |bytes: usize| 2 * bytes * bytes + bytes;
    Ok(vec![
        timer.time("scan", 8, nothing, || scan.launch(&stream, &source, &a, &scratch))?,
        timer.time("compact", 6, nothing, || {
            compact.launch(&stream, &bits, None, &[(&source, &a)], &scratch)
        })?,
        timer.time("radix sort, 32-bit keys and values", passes(4) + 2 * 4 * 4, refill, || {
            radix.sort(&stream, [&a, &b], [&c, &d], 32, &scratch).map(|_| ())
        })?,
        timer.time("radix sort, 32-bit keys", passes(4), refill, || {
            radix.sort_keys(&stream, [&a, &b], 32, &scratch).map(|_| ())
        })?,
        timer.time("radix sort, 64-bit keys", passes(8), refill_wide, || {
            radix.sort_u64(&stream, [&wide_a, &wide_b], None, 64, &scratch).map(|_| ())
        })?,
        timer.time("merge sort, 64-bit keys and values", 0, refill_wide, || {
            merge.sort(&stream, [&wide_a, &wide_b], [&c, &d], &scratch).map(|_| ())
        })?,
        timer.time("count by key", 4, nothing, || {
            runs.launch(&stream, &[&sorted], n, &a, &scratch)
        })?,
        timer.time("load-balancing search", 4, nothing, || {
            balance.launch(&stream, &starts, None, None, &a)
        })?,
    ])
}

struct Timer<'a> {
    stream: &'a Stream,
    n: usize,
    rounds: usize,
    copy: f64,
}

impl Timer<'_> {
    /// Returns the median time of `work`. `prepare` recreates its input before every run. `bytes`
    /// is the number of bytes that it must at least read and write per value, or 0 if that is not
    /// obvious.
    fn time(
        &self,
        name: &'static str,
        bytes: usize,
        prepare: impl Fn() -> Result<(), DeviceError>,
        work: impl Fn() -> Result<(), DeviceError>,
    ) -> Result<Cell, Failure> {
        let mut times = Vec::new();
        for round in 0..=self.rounds {
            prepare()?;
            self.stream.synchronize()?;
            let start = Instant::now();
            work()?;
            self.stream.synchronize()?;
            if round > 0 {
                times.push(start.elapsed());
            }
        }
        let seconds = median(&mut times).as_secs_f64();
        let values_per_s = self.n as f64 / seconds;
        let of_copy = (bytes > 0).then_some(values_per_s * bytes as f64 / self.copy);
        Ok(Cell { name, seconds, values_per_s, of_copy, cupy_seconds: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::device;
    use super::*;

    #[test]
    fn every_primitive_is_timed() {
        let cells = measure(&device(), 5000, 1, 1e12).expect("it fits");
        assert_eq!(cells.len(), 8);
        assert!(cells.iter().all(|cell| cell.seconds > 0.0 && cell.cupy_seconds.is_none()));
        // The script must use the same names, or its times would not be found.
        let compared = cells.iter().filter(|cell| SCRIPT.contains(&format!("{:?}:", cell.name)));
        assert_eq!(compared.count(), 7);
    }
}
