#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kafka_chain_fuzz::run("primitives", input));
