//! Records flow: handled, dead-lettered, sent on, committed.

use super::support::{Rig, Seen, Started, builder, record, values};
use kafka_chain::pipeline::{Entry, HandlerContext, handle_with};
use kafka_chain::{Error, dead_letter};
use std::collections::BTreeSet;

#[tokio::test]
async fn each_record_is_handled_and_a_second_run_finds_nothing() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..300)).await;
    let configuration = rig.configuration("");
    for run in 0..2 {
        let seen = Seen::default();
        let by_handler = seen.clone();
        let pipeline = builder(&configuration)
            .values::<String>()
            .unwrap()
            .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
                by_handler.push(order);
                async { Ok::<(), Error>(()) }
            }))
            .unwrap();
        let started = Started::of(pipeline);
        if run == 0 {
            seen.wait_for(300).await;
        } else {
            rig.produce("orders", &values(300..301)).await;
            seen.wait_for(1).await;
        }
        let summary = started.stop().await;
        assert_eq!((summary.abandoned, summary.uncommitted), (0, 0));
        let expected: BTreeSet<String> = match run {
            0 => values(0..300).into_iter().collect(),
            _ => values(300..301).into_iter().collect(),
        };
        assert_eq!(seen.set(), expected, "run {run}");
        assert_eq!(seen.all().len(), expected.len(), "run {run}");
    }
}

/// FC-036: what fails for good lies in the dead-letter topic, and the partition goes on.
#[tokio::test]
async fn what_fails_for_good_is_dead_lettered_as_it_was_consumed() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..60)).await;
    let configuration = rig.configuration("");
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(move |order: String, _: &HandlerContext<'_>| {
            let bad = order.ends_with('7');
            by_handler.push(order);
            async move {
                match bad {
                    true => Err(Error::schema("sevens are not sold")),
                    false => Ok(()),
                }
            }
        }))
        .unwrap();
    let started = Started::of(pipeline);
    seen.wait_for(60).await;
    started.stop().await;
    let letters = rig.read("orders.dead-letter", 6).await;
    let values: BTreeSet<String> = letters
        .iter()
        .map(|letter| String::from_utf8(letter.value.clone().unwrap().to_vec()).unwrap())
        .collect();
    let expected: BTreeSet<String> = (0..6)
        .map(|ten| {
            if ten == 0 {
                "order-7".to_owned()
            } else {
                format!("order-{ten}7")
            }
        })
        .collect();
    assert_eq!(values, expected);
    let record = letters[0].as_record();
    let (_, letter) = dead_letter::read(record.headers).unwrap();
    assert_eq!(letter.topic(), Some("orders"));
    assert_eq!(letter.message(), Some("sevens are not sold"));
    assert_eq!(letter.stage_path(), Some("handler"));
}

#[tokio::test]
async fn what_a_handler_sends_is_written_and_what_a_failed_attempt_sent_is_not() {
    let rig = Rig::new(&["orders", "orders.dead-letter", "bills"]);
    rig.produce("orders", &values(0..30)).await;
    let configuration =
        rig.configuration("handler.backoff=fixed\nhandler.backoff.fixed.intervalSeconds=0.01\nhandler.backoff.fixed.maxAttempts=3");
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(
            move |order: String, context: &HandlerContext<'_>| {
                let attempt = context.attempt();
                context.send(record("bills", 0, &format!("bill-{attempt}-{order}")));
                context.send(record("bills", 1, &format!("copy-{attempt}-{order}")));
                let fails = order.ends_with('3') && attempt == 1;
                async move {
                    match fails {
                        true => Err("not yet"),
                        false => Ok(()),
                    }
                }
            },
        ))
        .unwrap();
    let started = Started::of(pipeline);
    let bills = rig.read("bills", 60).await;
    started.stop().await;
    let texts: BTreeSet<String> = bills
        .iter()
        .map(|bill| String::from_utf8(bill.value.clone().unwrap().to_vec()).unwrap())
        .collect();
    let expected: BTreeSet<String> = values(0..30)
        .iter()
        .flat_map(|order| {
            let attempt = if order.ends_with('3') { 2 } else { 1 };
            [
                format!("bill-{attempt}-{order}"),
                format!("copy-{attempt}-{order}"),
            ]
        })
        .collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn a_handler_takes_key_and_value_if_it_wants_to() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..10)).await;
    let configuration = rig.configuration("key.deserializer=string");
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .entries::<String, String>()
        .unwrap()
        .handler(handle_with(
            move |entry: Entry<String, String>, _: &HandlerContext<'_>| {
                by_handler.push(format!("{:?}={:?}", entry.key, entry.value));
                async { Ok::<(), Error>(()) }
            },
        ))
        .unwrap();
    let started = Started::of(pipeline);
    seen.wait_for(10).await;
    started.stop().await;
    assert!(seen.set().contains("Some(\"order-4\")=Some(\"order-4\")"));
}

#[tokio::test(flavor = "current_thread")]
async fn it_works_on_one_thread_with_a_handler_that_blocks() {
    let rig = Rig::new(&["orders", "orders.dead-letter"]);
    rig.produce("orders", &values(0..30)).await;
    let configuration = rig.configuration("");
    let seen = Seen::default();
    let by_handler = seen.clone();
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .blocking_handler(2, move |order: String, _: &HandlerContext<'_>| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            by_handler.push(order);
            Ok::<(), Error>(())
        })
        .unwrap();
    let started = Started::of(pipeline);
    seen.wait_for(30).await;
    started.stop().await;
    assert_eq!(seen.all().len(), 30);
}

/// What can never be written is no reason to hold a partition up: the consumed record has failed.
#[tokio::test]
async fn a_record_whose_output_is_too_large_is_a_dead_letter() {
    let rig = Rig::new(&["orders", "orders.dead-letter", "bills"]);
    rig.produce("orders", &values(0..30)).await;
    let more = "dead.letter.producer.message.max.bytes=4000";
    let configuration = rig.configuration(more);
    let pipeline = builder(&configuration)
        .values::<String>()
        .unwrap()
        .handler(handle_with(
            |order: String, context: &HandlerContext<'_>| {
                let mut bill = record("bills", 0, &order);
                if order == "order-7" {
                    bill.value = Some(vec![b'x'; 5_000].into());
                }
                context.send(bill);
                async { Ok::<(), Error>(()) }
            },
        ))
        .unwrap();
    let started = Started::of(pipeline);
    let letters = rig.read("orders.dead-letter", 1).await;
    let value = letters[0].value.as_deref();
    assert_eq!(value, Some(&b"order-7"[..]));
    let (_, info) = dead_letter::read(letters[0].headers.view()).unwrap();
    assert_eq!(info.topic(), Some("orders"));
    let bills = rig.read("bills", 29).await;
    assert_eq!(bills.len(), 29);
    started.stop().await;
}
