use std::collections::{HashMap, HashSet};
use std::future::Future;

use proptest::prelude::*;

use super::*;

fn queue() -> (Queue<u8>, Arc<Metrics>) {
    let metrics = Metrics::new().expect("metrics");
    (Queue::new("test", &metrics), metrics)
}

/// The key that is handed out at once, if one is.
async fn try_next(queue: &Queue<u8>) -> Option<Taken<u8>> {
    tokio::time::timeout(Duration::ZERO, queue.next())
        .await
        .ok()
        .flatten()
}

fn paused<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(test)
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_once_however_often_it_is_added() {
    let (queue, metrics) = queue();
    for _ in 0..3 {
        queue.add(1);
    }
    assert_eq!(queue.len(), 1);
    drop(try_next(&queue).await.expect("the key"));
    assert!(try_next(&queue).await.is_none());
    let text = metrics.render().expect("text");
    assert!(text.contains("workqueue_adds_total{controller=\"test\",name=\"test\"} 1\n"));
}

#[tokio::test(start_paused = true)]
async fn a_key_in_work_waits_until_that_is_done() {
    let (queue, _metrics) = queue();
    queue.add(1);
    let first = try_next(&queue).await.expect("the key");
    queue.add(1);
    queue.add(2);
    let other = try_next(&queue).await.expect("the other key");
    assert_eq!(*other.key(), 2);
    assert!(try_next(&queue).await.is_none());
    drop(first);
    let again = try_next(&queue).await.expect("the key again");
    assert_eq!(*again.key(), 1);
}

#[tokio::test(start_paused = true)]
async fn live_events_overtake_the_initial_list_and_lift_its_keys() {
    let (queue, metrics) = queue();
    let low = Add {
        priority: LOW,
        ..Add::default()
    };
    for key in 1..=3 {
        queue.add_with(key, low);
    }
    queue.add(9);
    queue.add(3);
    // Lowering is not possible.
    queue.add_with(9, low);
    let text = metrics.render().expect("text");
    for (priority, depth) in [(-100, 2), (0, 2)] {
        let line = format!(
            "workqueue_depth{{controller=\"test\",name=\"test\",priority=\"{priority}\"}} {depth}\n"
        );
        assert!(text.contains(&line), "{line}{text}");
    }
    let mut order = Vec::new();
    while let Some(taken) = try_next(&queue).await {
        order.push(*taken.key());
    }
    // 3 keeps its place in line among the live ones: it was added before 9.
    assert_eq!(order, [3, 9, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_from_five_milliseconds_to_a_thousand_seconds() {
    let (queue, metrics) = queue();
    queue.add(1);
    let mut gaps = Vec::new();
    for _ in 0..22 {
        let taken = queue.next().await.expect("the key");
        let failed = Instant::now();
        taken.retry();
        drop(taken);
        let next = queue.next().await.expect("the key again");
        gaps.push(failed.elapsed().as_millis());
        // Put back as it was taken, without another failure.
        queue.add(1);
        drop(next);
    }
    let expected: Vec<u128> = (0..22).map(|n| (5_u128 << n).min(1_000_000)).collect();
    assert_eq!(gaps, expected);
    let text = metrics.render().expect("text");
    assert!(text.contains("workqueue_retries_total{controller=\"test\",name=\"test\"} 22\n"));

    queue.forget(&1);
    let taken = queue.next().await.expect("the key");
    let failed = Instant::now();
    taken.retry();
    drop(taken);
    queue.next().await.expect("the key again");
    assert_eq!(failed.elapsed(), FIRST_BACKOFF);
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_times_holds() {
    let (queue, _metrics) = queue();
    let start = Instant::now();
    queue.add_after(1, Duration::from_secs(10));
    queue.add_after(1, Duration::from_secs(3));
    queue.add_after(1, Duration::from_secs(7));
    drop(queue.next().await.expect("the key"));
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    assert!(try_next(&queue).await.is_none());

    queue.add_after(2, Duration::from_secs(10));
    queue.add(2);
    assert_eq!(queue.len(), 1);
    assert_eq!(*try_next(&queue).await.expect("the key").key(), 2);
}

#[tokio::test(start_paused = true)]
async fn times_in_queue_and_in_work_are_measured() {
    let (queue, metrics) = queue();
    queue.add_after(1, Duration::from_secs(5));
    tokio::time::sleep(Duration::from_secs(7)).await;
    let taken = queue.next().await.expect("the key");
    tokio::time::sleep(Duration::from_secs(4)).await;
    let text = metrics.render().expect("text");
    let labels = "{controller=\"test\",name=\"test\"}";
    for line in [
        format!("workqueue_queue_duration_seconds_sum{labels} 2\n"),
        format!("workqueue_unfinished_work_seconds{labels} 4\n"),
        format!("workqueue_longest_running_processor_seconds{labels} 4\n"),
    ] {
        assert!(text.contains(&line), "{line}{text}");
    }
    drop(taken);
    let text = metrics.render().expect("text");
    assert!(text.contains(&format!("workqueue_work_duration_seconds_sum{labels} 4\n")));
    assert!(text.contains(&format!("workqueue_unfinished_work_seconds{labels} 0\n")));
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_every_worker() {
    let (queue, _metrics) = queue();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.is_none() })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    queue.close();
    queue.add(1);
    for worker in workers {
        assert!(worker.await.expect("no panic"), "closed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_work_does_not_lock_its_key() {
    let (queue, _metrics) = queue();
    queue.add(1);
    let worker = queue.clone();
    let outcome = tokio::spawn(async move {
        let _taken = worker.next().await;
        panic!("in work");
    });
    assert!(outcome.await.is_err());
    queue.add(1);
    assert!(try_next(&queue).await.is_some());
}

#[derive(Debug, Clone)]
enum Act {
    Add(u8, i32),
    Later(u8, u64),
    Take,
    Finish(bool),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6_u8, prop_oneof![Just(LIVE), Just(LOW)]).prop_map(|(k, p)| Act::Add(k, p)),
        2 => (0..6_u8, 1..400_u64).prop_map(|(k, ms)| Act::Later(k, ms)),
        4 => Just(Act::Take),
        4 => any::<bool>().prop_map(Act::Finish),
        1 => (1..500_u64).prop_map(Act::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens: no key is in work twice, none is lost, none comes from nowhere.
    #[test]
    fn no_key_is_lost_and_none_is_worked_on_twice_at_once(acts in prop::collection::vec(act(), 1..80)) {
        paused(async move {
            let (queue, _metrics) = queue();
            let mut owed: HashSet<u8> = HashSet::new();
            let mut held: Vec<Taken<u8>> = Vec::new();
            for act in acts {
                match act {
                    Act::Add(key, priority) => {
                        owed.insert(key);
                        queue.add_with(key, Add { priority, ..Add::default() });
                    }
                    Act::Later(key, after) => {
                        owed.insert(key);
                        queue.add_after(key, Duration::from_millis(after));
                    }
                    Act::Take => {
                        if let Some(taken) = try_next(&queue).await {
                            prop_assert!(held.iter().all(|other| other.key() != taken.key()));
                            prop_assert!(owed.remove(taken.key()));
                            held.push(taken);
                        }
                    }
                    Act::Finish(fails) => {
                        if !held.is_empty() {
                            let taken = held.remove(0);
                            if fails {
                                owed.insert(*taken.key());
                                taken.retry();
                            }
                        }
                    }
                    Act::Pass(ms) => tokio::time::advance(Duration::from_millis(ms)).await,
                }
            }
            held.clear();
            tokio::time::advance(LONGEST_BACKOFF).await;
            let mut seen: HashMap<u8, u32> = HashMap::new();
            while let Some(taken) = try_next(&queue).await {
                *seen.entry(*taken.key()).or_default() += 1;
            }
            prop_assert!(seen.values().all(|times| *times == 1));
            prop_assert_eq!(seen.into_keys().collect::<HashSet<_>>(), owed);
            prop_assert!(queue.is_empty());
            Ok(())
        })?;
    }
}
