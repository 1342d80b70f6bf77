use super::super::commit::CommitFailure;
use super::*;

fn owned(partition: i32, ownership: u64) -> OwnedPartition {
    OwnedPartition {
        topic: "orders".into(),
        partition,
        ownership,
    }
}

fn ask(committer: &mut Committer, commits: &[Commit]) -> oneshot::Receiver<CommitResults> {
    let (reply, answer) = oneshot::channel();
    committer.add(commits.to_vec(), reply);
    answer
}

fn answer(sent: &[Commit], overall: Code, code: Code) -> CommitAnswer {
    let of = |commit: &Commit| {
        let OwnedPartition {
            topic, partition, ..
        } = &commit.partition;
        (Arc::clone(topic), *partition, commit.offset, code)
    };
    CommitAnswer {
        overall,
        offsets: sent.iter().map(of).collect(),
    }
}

#[test]
fn requests_that_wait_go_together_and_the_highest_offset_counts() {
    let (mut committer, now) = (Committer::default(), Instant::now());
    let mut first = ask(&mut committer, &[Commit::new(owned(0, 1), 5)]);
    let mut second = ask(
        &mut committer,
        &[Commit::new(owned(0, 1), 7), Commit::new(owned(1, 2), 3)],
    );
    let mut third = ask(&mut committer, &[Commit::new(owned(0, 1), 6)]);
    let sent = committer.next(now, |_| true).unwrap();
    let offsets: Vec<i64> = sent.iter().map(|commit| commit.offset).collect();
    assert_eq!(offsets, [7, 3]);

    let mut late = ask(&mut committer, &[Commit::new(owned(0, 1), 8)]);
    assert_eq!(committer.next(now, |_| true), None, "one is under way");
    committer.answered(now, &answer(&sent, Code::NoError, Code::NoError));
    assert_eq!(first.try_recv().unwrap(), [Ok(())]);
    assert_eq!(second.try_recv().unwrap(), [Ok(()), Ok(())]);
    assert_eq!(third.try_recv().unwrap(), [Ok(())]);
    assert!(late.try_recv().is_err());
    assert_eq!(committer.next(now, |_| true).unwrap().len(), 1);
}

/// FC-069, FC-071: what is no longer ours is never sent, however often it is asked for.
#[test]
fn an_ownership_that_ended_is_not_committed() {
    let (mut committer, now) = (Committer::default(), Instant::now());
    let is_ours = |partition: &OwnedPartition| *partition == owned(0, 9);
    let mut mixed = ask(
        &mut committer,
        &[Commit::new(owned(0, 1), 500), Commit::new(owned(0, 9), 5)],
    );
    let sent = committer.next(now, is_ours).unwrap();
    assert_eq!(sent, [Commit::new(owned(0, 9), 5)]);
    committer.answered(now, &answer(&sent, Code::NoError, Code::NoError));
    let [Err(stale), Ok(())] = &mixed.try_recv().unwrap()[..] else {
        panic!("the stale one is told apart");
    };
    assert_eq!(stale.failure, CommitFailure::NotOwned);

    let mut only = ask(&mut committer, &[Commit::new(owned(0, 1), 500)]);
    assert_eq!(committer.next(now, is_ours), None);
    assert!(only.try_recv().unwrap()[0].is_err());
    assert!(committer.is_idle());
}

/// FC-071.
#[test]
fn each_partition_gets_its_own_code_and_no_offset_is_no_error() {
    let (mut committer, now) = (Committer::default(), Instant::now());
    let commits = [
        Commit::new(owned(0, 1), 5),
        Commit::new(owned(1, 2), 6),
        Commit::new(owned(2, 3), -7),
    ];
    let mut results = ask(&mut committer, &commits);
    let sent = committer.next(now, |_| true).unwrap();
    let mut said = answer(&sent, Code::NotCoordinator, Code::NoError);
    said.offsets[1].3 = Code::NotCoordinator;
    committer.answered(now, &said);
    let results = results.try_recv().unwrap();
    assert_eq!(results[0], Ok(()));
    let failure = |index: usize| results[index].as_ref().unwrap_err().failure;
    assert_eq!(failure(1), CommitFailure::Coordinator);
    assert_eq!(failure(2), CommitFailure::Refused);

    let later = now + WAITS.1;
    let mut nothing = ask(&mut committer, &commits[..1]);
    let sent = committer.next(later, |_| true).unwrap();
    committer.answered(later, &answer(&sent, Code::NoOffset, Code::NoError));
    assert_eq!(nothing.try_recv().unwrap(), [Ok(())]);
    assert_eq!(committer.due(), None);
}

/// FC-074: however fast the caller asks again, and however often the loop turns.
#[test]
fn failures_slow_the_tries_down() {
    let (mut committer, start) = (Committer::default(), Instant::now());
    let mut tries = 0;
    for millis in 0..10_000 {
        let now = start + Duration::from_millis(millis);
        if committer.is_idle() {
            drop(ask(&mut committer, &[Commit::new(owned(0, 1), 5)]));
        }
        if let Some(sent) = committer.next(now, |_| true) {
            tries += 1;
            committer.answered(
                now,
                &answer(&sent, Code::UnknownMemberId, Code::UnknownMemberId),
            );
        }
    }
    assert!((8..=14).contains(&tries), "{tries} tries in 10 s");

    let now = start + Duration::from_secs(20);
    let sent = committer.next(now, |_| true).unwrap();
    committer.answered(now, &answer(&sent, Code::NoError, Code::NoError));
    drop(ask(&mut committer, &[Commit::new(owned(0, 1), 6)]));
    assert!(committer.next(now, |_| true).is_some(), "success ends that");
}

#[test]
fn an_answer_that_never_comes_is_a_timeout_and_a_late_one_is_ignored() {
    let (mut committer, start) = (Committer::default(), Instant::now());
    let mut results = ask(&mut committer, &[Commit::new(owned(0, 1), 5)]);
    let sent = committer.next(start, |_| true).unwrap();
    let now = start + ANSWER;
    assert_eq!(committer.due(), Some(now));
    assert_eq!(committer.next(now, |_| true), None);
    let failure = results.try_recv().unwrap()[0].clone().unwrap_err().failure;
    assert_eq!(failure, CommitFailure::Timeout);

    let now = now + WAITS.1;
    let mut newer = ask(&mut committer, &[Commit::new(owned(0, 1), 6)]);
    let newest = committer.next(now, |_| true).unwrap();
    committer.answered(now, &answer(&sent, Code::NoError, Code::NoError));
    assert!(newer.try_recv().is_err());
    committer.answered(now, &answer(&newest, Code::NoError, Code::NoError));
    assert_eq!(newer.try_recv().unwrap(), [Ok(())]);
}
