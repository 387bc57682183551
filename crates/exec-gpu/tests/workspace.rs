//! The memory that rounds reuse.
#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use support::devices;
use warpseek_exec::Context;
use warpseek_exec_gpu::failed;
use warpseek_exec_gpu::workspace::Pool;

/// Checks that the state has the requested length in every call, and is 0.
#[test]
fn the_state_has_the_requested_length() {
    for device in devices() {
        let pool = Pool::new(device.clone());
        let lengths =
            pool.rounds(&[&[3usize, 3, 1, 100, 7][..]], 1, &Context::new(1), |round, workspace| {
                let mut states = Vec::new();
                for &words in round {
                    let state = workspace.state(&device, words).map_err(failed)?;
                    states.push(workspace.stream.download(&state).map_err(failed)?);
                }
                Ok(states)
            });
        let states = lengths.into_iter().next().unwrap().unwrap();
        let states: Vec<Vec<u64>> = states.into_iter().map(Result::unwrap).collect();
        assert_eq!(states, [3, 3, 1, 100, 7].map(|words| vec![0; words]));
    }
}
