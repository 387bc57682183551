#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| warpseek_fuzz::queries(data));
