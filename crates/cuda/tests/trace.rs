//! The report of a trace about the work of streams.

#![allow(clippy::unwrap_used)]

mod support;

use support::devices;
use warpseek_cuda::kernels::copy::Copy;
use warpseek_cuda::{Device, DeviceError, Step, Stream};

const WORDS: usize = 1000;
const BYTES: u64 = 4 * WORDS as u64;

/// Runs a step of each kind.
fn work(device: &Device, stream: &Stream, copy: &Copy) -> Result<(), DeviceError> {
    let from = device.upload(stream, &[7u32; WORDS])?;
    let to = device.buffer(WORDS)?;
    let mut pinned = device.pinned(WORDS)?;
    stream.zero(&to)?;
    stream.copy(&from, &to)?;
    copy.launch(stream, &from, &to)?;
    stream.copy_out(&to, &mut pinned, 0)?;
    stream.copy_in(&pinned, 0, &from)?;
    let mut graph = stream.capture(|stream| {
        copy.launch(stream, &from, &to)?;
        copy.launch(stream, &from, &to)
    })?;
    graph.launch(stream)?;
    assert_eq!(stream.download(&to)?, [7; WORDS]);
    Ok(())
}

fn names(steps: &[Step]) -> Vec<(&str, u64)> {
    steps.iter().map(|step| (&*step.name, step.bytes)).collect()
}

#[test]
fn every_step_is_traced_once() {
    let expected = [
        ("copy in", BYTES),
        ("fill", BYTES),
        ("copy", 2 * BYTES),
        ("copy_words", 0),
        ("copy out", BYTES),
        ("copy in", BYTES),
        ("copy_words + copy_words", 0),
        ("copy out", BYTES),
    ];
    for device in devices() {
        let (stream, copy) = (device.stream().unwrap(), Copy::new(&device).unwrap());
        work(&device, &stream, &copy).unwrap();
        let trace = device.trace();
        work(&device, &stream, &copy).unwrap();
        assert_eq!(names(&trace.take().unwrap()), expected);
        assert_eq!(names(&trace.take().unwrap()), []);
        work(&device, &stream, &copy).unwrap();
        assert_eq!(names(&trace.take().unwrap()), expected, "with events used before");
        // Only the last trace receives steps.
        let second = device.trace();
        work(&device, &stream, &copy).unwrap();
        assert_eq!(names(&trace.take().unwrap()), []);
        assert_eq!(names(&second.take().unwrap()), expected);
        drop(second);
        work(&device, &stream, &copy).unwrap();
    }
}
