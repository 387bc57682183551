//! Kernels that never end, and devices that are lost. These tests run on the emulator, which
//! aborts the program if a driver call would never return.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use warpseek_cuda::kernels::copy::Copy;
use warpseek_cuda::{Buffer, Device, DeviceError, Fault, Stream};
use warpseek_cuda_emulator::{inject, symbol};

const LIMIT: Duration = Duration::from_millis(20);

/// A device with one object of each kind that belongs to it.
struct Set {
    device: Device,
    stream: Stream,
    copy: Copy,
    from: Buffer<u32>,
    to: Buffer<u32>,
}

impl Set {
    fn open(ordinal: u32) -> Result<Self, DeviceError> {
        // SAFETY: the emulator's own function.
        let device = unsafe { Device::emulated(symbol, ordinal, None) }?;
        let stream = device.stream()?;
        let copy = Copy::new(&device)?;
        let (from, to) = (device.upload(&stream, &[1, 2, 3, 4])?, device.buffer(4)?);
        device.set_time_limit(Some(LIMIT));
        Ok(Set { device, stream, copy, from, to })
    }

    /// Copies with a kernel, without waiting.
    fn launch(&self) -> Result<(), DeviceError> {
        self.copy.launch(&self.stream, &self.from, &self.to)
    }

    fn works(&self) -> bool {
        self.launch().is_ok() && self.stream.download(&self.to) == Ok(vec![1, 2, 3, 4])
    }
}

fn hung(kernels: &[&str]) -> DeviceError {
    DeviceError::Hung { ran: kernels.iter().map(|&name| name.to_owned()).collect(), limit: LIMIT }
}

/// Checks that every way to wait for a hanging kernel ends with the error.
#[test]
fn waiting_ends() {
    type Wait = fn(&Set) -> Result<(), DeviceError>;
    let ways: [(&str, Wait); 6] = [
        ("a stream", |set| set.stream.synchronize()),
        ("a download", |set| set.stream.download(&set.to).map(drop)),
        ("an upload", |set| set.stream.upload(&[1, 2, 3, 4], &set.from)),
        ("an event", |set| {
            let event = set.device.event()?;
            set.stream.record(&event)?;
            event.synchronize()
        }),
        ("pinned memory", |set| {
            let mut pinned = set.device.pinned(4)?;
            set.stream.copy_out(&set.to, &mut pinned, 0)?;
            pinned.read().map(drop)
        }),
        ("another stream", |set| {
            let (event, other) = (set.device.event()?, set.device.stream()?);
            set.stream.record(&event)?;
            other.wait(&event)?;
            other.synchronize()
        }),
    ];
    for (name, wait) in ways {
        let injected = inject("hang=1");
        let set = Set::open(0).unwrap();
        drop(injected);
        set.launch().unwrap();
        let start = Instant::now();
        let error = wait(&set).unwrap_err();
        assert!(matches!(&error, DeviceError::Hung { limit: LIMIT, .. }), "{name}: {error:?}");
        assert!(start.elapsed() >= LIMIT, "{name}");
        assert_eq!(error.fault(), Fault::Device);
    }
}

/// Checks that after that neither calls nor drops wait any more, and that the other device works.
#[test]
fn a_device_that_hangs_is_left_alone() {
    let injected = inject("hang=2");
    let set = Set::open(0).unwrap();
    drop(injected);
    let other = Set::open(1).unwrap();
    assert!(set.works());
    set.launch().unwrap();
    let expected = hung(&["copy_words"]);
    assert_eq!(set.stream.synchronize(), Err(expected.clone()));
    assert!(expected.to_string().contains("end this program"), "{expected}");
    // Without a limit, any of these that waited would wait forever.
    set.device.set_time_limit(None);
    assert_eq!(set.stream.synchronize(), Err(expected.clone()));
    assert_eq!(set.launch(), Err(expected.clone()));
    assert_eq!(set.device.buffer::<u8>(1).err(), Some(expected.clone()));
    assert_eq!(set.device.pinned::<u8>(1).err(), Some(expected.clone()));
    assert_eq!(set.device.stream().err(), Some(expected.clone()));
    assert_eq!(set.device.event().err(), Some(expected.clone()));
    assert_eq!(set.device.available().err(), Some(expected));
    drop(set);
    assert!(other.works());
}

/// Checks that freeing memory while a kernel hangs waits at most until the limit, and leaks the
/// memory.
#[test]
fn freeing_memory_ends() {
    let injected = inject("hang=1");
    let set = Set::open(1).unwrap();
    drop(injected);
    let (buffer, pinned) =
        (set.device.buffer::<u8>(9).unwrap(), set.device.pinned::<u8>(9).unwrap());
    set.launch().unwrap();
    drop(buffer);
    drop(pinned);
    assert_eq!(set.stream.synchronize(), Err(hung(&["copy_words"])));
}

/// Checks that a lost device keeps failing, and can be opened again when everything that belonged
/// to it is gone.
#[test]
fn a_lost_device_can_be_opened_again() {
    for fault in ["cuLaunchKernel@1=700!", "cuStreamQuery@2=719", "cuMemAlloc_v2@2=999!"] {
        let injected = inject(fault);
        let set = Set::open(0);
        drop(injected);
        let failed = set.and_then(|set| {
            let clone = set.device.clone();
            let failed = set.launch().and_then(|()| set.stream.synchronize());
            assert!(failed.is_err() && !set.works() && clone.stream().is_err(), "{fault}");
            failed
        });
        assert_eq!(failed.unwrap_err().fault(), Fault::Device, "{fault}");
        assert!(Set::open(0).unwrap().works(), "{fault}");
    }
}
