//! What this machine does without Kafka.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn median(mut all: Vec<Duration>) -> (f64, f64) {
    all.sort_unstable();
    let at = |share: usize| all[(all.len() * share / 100).min(all.len() - 1)].as_secs_f64() * 1e3;
    (at(50), at(99))
}

pub(crate) async fn print() {
    let (p50, p99) = fsync();
    println!("fsync of 4 KiB: p50 {p50:.2} ms, p99 {p99:.2} ms");
    let (p50, p99) = round_trip();
    println!("loopback round trip: p50 {p50:.3} ms, p99 {p99:.3} ms");
    let mut late = Vec::new();
    for _ in 0..1_000 {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        late.push(began.elapsed().saturating_sub(Duration::from_millis(1)));
    }
    let (p50, p99) = median(late);
    println!("a sleep of 1 ms is late by: p50 {p50:.2} ms, p99 {p99:.2} ms");
}

fn fsync() -> (f64, f64) {
    let path = std::env::temp_dir().join(format!("kafka-chain-fsync-{}", std::process::id()));
    let mut file = File::create(&path).expect("a file");
    let mut all = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        file.write_all(&[7; 4_096]).expect("written");
        file.sync_data().expect("synced");
        all.push(began.elapsed());
    }
    drop(file);
    std::fs::remove_file(&path).expect("removed");
    median(all)
}

fn round_trip() -> (f64, f64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            stream.write_all(&byte).expect("written");
        }
    });
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_nodelay(true).expect("no delay");
    let mut all = Vec::new();
    for _ in 0..2_000 {
        let began = Instant::now();
        stream.write_all(&[7]).expect("written");
        stream.read_exact(&mut [0]).expect("read");
        all.push(began.elapsed());
    }
    drop(stream);
    echo.join().expect("no panic");
    median(all)
}
