//! Tests of the service with real engines and threads: hits are those of the reference under any
//! schedule, and no request is lost, whatever engines do.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use warpseek_exec::{
    Answers, Cancel, Candidate, Context, Engine, ExecError, Fault, Mode, Plan, Planner, Query,
    Ranking, Reference, fail_all,
};
use warpseek_exec_cpu::CpuEngine;
use warpseek_index::{Snapshot, SnapshotId};
use warpseek_sched::service::{Limits, Place, Service, ServiceError, ServiceOptions};
use warpseek_testkit::{Doc, Fixture};

/// An engine with simulated problems, which counts its requests.
struct Troubled {
    engine: CpuEngine,
    fails: AtomicBool,
    panics: AtomicBool,
    /// Additional time that each batch takes.
    slow: Mutex<Duration>,
    /// Lock that makes the engine hang while a test holds it.
    hangs: Arc<Mutex<()>>,
    asked: AtomicU64,
}

impl Troubled {
    fn new(snapshot: &Arc<Snapshot>) -> Arc<Self> {
        Arc::new(Troubled {
            engine: CpuEngine::new(snapshot.clone(), None),
            fails: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            slow: Mutex::new(Duration::ZERO),
            hangs: Arc::default(),
            asked: AtomicU64::new(0),
        })
    }
}

impl Engine for Troubled {
    fn name(&self) -> &'static str {
        "troubled"
    }

    fn snapshot(&self) -> SnapshotId {
        self.engine.snapshot()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.engine.candidates(plan, alone, context)
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        self.asked.fetch_add(plans.len() as u64, Ordering::SeqCst);
        drop(self.hangs.lock());
        std::thread::sleep(*self.slow.lock().unwrap());
        assert!(!self.panics.load(Ordering::SeqCst), "as it should");
        if self.fails.load(Ordering::SeqCst) {
            let source = Arc::new(std::io::Error::other("it is broken"));
            return fail_all(plans, &ExecError::Device { fault: Fault::Device, source });
        }
        self.engine.search(plans, context)
    }
}

fn fixture() -> Fixture {
    let words = ["ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen"];
    let text = |i: usize| {
        (0..1 + i % 7)
            .map(|j| words[(i * (j + 3) + j * j) % words.len()])
            .collect::<Vec<_>>()
            .join(" ")
    };
    Fixture::of(&(0..3000).map(|i| Doc::text(i, text(i))).collect::<Vec<_>>())
}

fn plans(snapshot: &Arc<Snapshot>, count: usize) -> Vec<Plan> {
    let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
    let words = ["ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen", "yak"];
    let plan = |i: usize| {
        let terms = (0..1 + i % 4)
            .map(|j| (words[(i / 3 + j * (i % 5 + 1)) % words.len()].to_owned(), 1.0));
        let mode = [Mode::Or, Mode::And, Mode::AndOr][i % 3];
        let plan = planner.plan(&Query::of(terms), mode, 1 + i % 20).unwrap();
        Plan { count: i.is_multiple_of(11), ..plan }
    };
    (0..count).map(plan).collect()
}

/// Returns a place that answers batches, as a GPU does.
fn batches(engine: Arc<dyn Engine>) -> Place {
    Place { batch: 50, fixed: Duration::from_micros(20), share: 0.5, ..Place::cpu(engine, 1) }
}

fn expected(snapshot: &Arc<Snapshot>, plans: &[Plan]) -> Vec<Vec<warpseek_core::Hit>> {
    let refs: Vec<&Plan> = plans.iter().collect();
    let answers = Reference::new(snapshot.clone()).search(&refs, Context::single());
    answers.into_iter().map(|answer| answer.unwrap().hits).collect()
}

/// Returns how long requests keep coming with each kind of cache. `cargo xtask soak` sets the
/// time.
fn soak() -> Duration {
    let seconds = std::env::var("WARPSEEK_SOAK_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

#[test]
fn every_schedule_has_the_hits_of_the_reference() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let plans = plans(&snapshot, 400);
    let expected = expected(&snapshot, &plans);
    let cpu = || -> Arc<dyn Engine> { Arc::new(CpuEngine::new(snapshot.clone(), None)) };
    for cache in [None, Some(0), Some(1 << 20)] {
        let places = vec![Place::cpu(cpu(), 2), batches(cpu())];
        let service =
            Service::new(places, ServiceOptions { cache, ..ServiceOptions::default() }).unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (service, plans, expected) = (&service, &plans, &expected);
                scope.spawn(move || {
                    for round in (0..).take_while(|&round| round < 5 || start.elapsed() < soak()) {
                        let submit = |(i, plan): (usize, &Plan)| {
                            // Requests come with and without a deadline, in another order each
                            // time.
                            let deadline = (i % 2 == 0).then_some(Duration::from_secs(60));
                            let limits = Limits { deadline, ..Limits::default() };
                            (i, service.submit(Arc::new(plan.clone()), limits).unwrap())
                        };
                        let from = (thread * 131 + round * 37) % plans.len();
                        let order = plans.iter().enumerate().cycle().skip(from).take(plans.len());
                        let tickets: Vec<_> = order.map(submit).collect();
                        for (i, ticket) in tickets {
                            let served = ticket.wait();
                            let answer = served.answer.unwrap();
                            assert!(!served.late && answer.coverage.is_complete());
                            assert_eq!(answer.hits, expected[i], "query {i}");
                        }
                    }
                });
            }
        });
        let status = service.status();
        let answered: u64 = status.counts.stations.iter().map(|[_, jobs, _]| jobs).sum();
        let known = status.cache.as_ref().map_or(0, |cache| cache.hits + cache.joined);
        assert!(cache.is_none() || known > 0, "equal requests are computed once: {status:?}");
        println!("{} requests, of which {answered} were computed", answered + known);
        assert!(answered + known >= 8000 && (answered + known).is_multiple_of(400), "{status:?}");
        assert_eq!((status.waiting, status.late), (0, 0));
        assert!(status.counts.stations.iter().all(|[_, jobs, _]| *jobs > 0), "{status:?}");
    }
}

#[test]
fn equal_requests_at_the_same_time_are_computed_once() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    let options = ServiceOptions { cache: Some(1 << 20), ..ServiceOptions::default() };
    let service = Service::new(vec![Place::cpu(engine.clone(), 2)], options).unwrap();
    let plan = &plans(&snapshot, 1)[0];
    let held = engine.hangs.lock().unwrap();
    let tickets: Vec<_> = (0..10)
        .map(|_| service.submit(Arc::new(plan.clone()), Limits::default()).unwrap())
        .collect();
    drop(held);
    let served: Vec<_> = tickets.into_iter().map(warpseek_sched::service::Ticket::wait).collect();
    assert_eq!(engine.asked.load(Ordering::SeqCst), 1);
    assert_eq!(served.iter().filter(|served| served.shared).count(), 9);
    let first = served[0].answer.as_ref().unwrap();
    assert!(served.iter().all(|served| served.answer.as_ref().unwrap().hits == first.hits));
    let again = service.submit(Arc::new(plan.clone()), Limits::default()).unwrap().wait();
    assert!(again.shared && again.answer.unwrap().hits == first.hits);
    let counts = service.status().cache.unwrap();
    assert_eq!((counts.hits, counts.misses, counts.joined), (1, 1, 9));
}

/// If the request that computes an answer is cancelled, the requests that wait for the same
/// answer get it nevertheless.
#[test]
fn who_waits_for_a_cancelled_request_is_answered() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    let options = ServiceOptions { cache: Some(1 << 20), ..ServiceOptions::default() };
    let service = Service::new(vec![Place::cpu(engine.clone(), 1)], options).unwrap();
    let plans = plans(&snapshot, 2);
    let held = engine.hangs.lock().unwrap();
    // Another request keeps the only server busy.
    let busy = service.submit(Arc::new(plans[1].clone()), Limits::default()).unwrap();
    let leader = service.submit(Arc::new(plans[0].clone()), Limits::default()).unwrap();
    let follower = service.submit(Arc::new(plans[0].clone()), Limits::default()).unwrap();
    drop(leader);
    drop(held);
    assert_eq!(follower.wait().answer.unwrap().hits, expected(&snapshot, &plans)[0]);
    assert!(busy.wait().answer.is_ok());
}

/// A caller may use one flag for several requests; dropping the ticket of one does not cancel the
/// others.
#[test]
fn a_ticket_that_is_dropped_cancels_no_other_request() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    let service =
        Service::new(vec![Place::cpu(engine.clone(), 1)], ServiceOptions::default()).unwrap();
    let plans = plans(&snapshot, 2);
    let all = Cancel::new();
    let submit = |plan: &Plan| {
        let limits = Limits { cancel: Some(all.clone()), ..Limits::default() };
        service.submit(Arc::new(plan.clone()), limits).unwrap()
    };
    let held = engine.hangs.lock().unwrap();
    let first = submit(&plans[0]);
    while engine.asked.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let second = submit(&plans[1]);
    drop(first);
    drop(held);
    assert!(!all.is_set());
    assert_eq!(second.wait().answer.unwrap().hits, expected(&snapshot, &plans)[1]);
}

/// A request whose flag is set while it waits is dropped when its turn comes: no engine begins it,
/// and requests that wait for the same answer get it nevertheless.
#[test]
fn a_request_that_its_caller_cancels_while_it_waits_is_not_begun() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let plans = plans(&snapshot, 3);
    for cache in [None, Some(1 << 20)] {
        let engine = Troubled::new(&snapshot);
        let options = ServiceOptions { cache, ..ServiceOptions::default() };
        let service = Service::new(vec![Place::cpu(engine.clone(), 1)], options).unwrap();
        let submit = |plan: &Plan, cancel: Option<&Cancel>| {
            let limits = Limits { cancel: cancel.cloned(), ..Limits::default() };
            service.submit(Arc::new(plan.clone()), limits).unwrap()
        };
        let held = engine.hangs.lock().unwrap();
        let busy = submit(&plans[0], None);
        while engine.asked.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let flag = Cancel::new();
        let cancelled = submit(&plans[1], Some(&flag));
        // With a cache, this request waits for the answer to the cancelled one.
        let equal = submit(&plans[1], None);
        let other = submit(&plans[2], None);
        flag.set();
        drop(held);
        assert!(matches!(cancelled.wait().answer, Err(ServiceError::Cancelled)));
        let expected = expected(&snapshot, &plans);
        for (ticket, hits) in [busy, equal, other].into_iter().zip(&expected) {
            assert_eq!(&ticket.wait().answer.unwrap().hits, hits);
        }
        assert_eq!(engine.asked.load(Ordering::SeqCst), 3);
        let status = service.status();
        assert_eq!((status.waiting, status.counts.stations[0][1]), (0, 3));
    }
}

#[test]
fn what_cannot_be_answered_in_time_is_refused_and_what_runs_out_of_time_says_so() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    let service =
        Service::new(vec![Place::cpu(engine.clone(), 1)], ServiceOptions::default()).unwrap();
    let plan = &plans(&snapshot, 1)[0];
    let within = |time| Limits { deadline: Some(time), ..Limits::default() };
    let held = engine.hangs.lock().unwrap();
    let busy = service.submit(Arc::new(plan.clone()), Limits::default()).unwrap();
    while engine.asked.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // The request waits for a server that hangs, and gets its answer when its time is up.
    let waiting = service.submit(Arc::new(plan.clone()), within(Duration::from_millis(50)));
    if let Ok(waiting) = waiting {
        let served = waiting.wait();
        assert_eq!(served.answer.unwrap().coverage, warpseek_exec::Coverage::NOTHING);
    }
    // By now the service knows that the server is late.
    std::thread::sleep(Duration::from_millis(50));
    let refused = service.submit(Arc::new(plan.clone()), within(Duration::from_millis(1)));
    assert!(
        matches!(refused, Err(ServiceError::Refused { wait }) if wait > Duration::from_millis(1))
    );
    // The time of this request is up before it is submitted.
    let past = Instant::now().checked_sub(Duration::from_millis(20)).unwrap();
    let deadline = Some(Duration::from_millis(10));
    let limits = Limits { arrived: Some(past), deadline, ..Limits::default() };
    assert!(matches!(
        service.submit(Arc::new(plan.clone()), limits),
        Err(ServiceError::Refused { .. })
    ));
    drop(held);
    assert!(busy.wait().answer.is_ok());
}

/// A request whose engine never returns is given up, and a later answer is ignored.
#[test]
fn a_request_that_an_engine_does_not_return_is_answered_without_it() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    let service =
        Service::new(vec![Place::cpu(engine.clone(), 1)], ServiceOptions::default()).unwrap();
    let held = engine.hangs.lock().unwrap();
    let (send, receive) = mpsc::channel();
    let limits = Limits { deadline: Some(Duration::from_secs(2)), ..Limits::default() };
    let plan = plans(&snapshot, 1).remove(0);
    service.submit_with(Arc::new(plan), limits, move |served| send.send(served).unwrap()).unwrap();
    let served = receive.recv_timeout(Duration::from_secs(120)).unwrap();
    assert!(served.late && !served.answer.unwrap().coverage.is_complete());
    drop(held);
    assert!(
        receive.recv_timeout(Duration::from_secs(30)).is_err(),
        "no second answer, and no sender is left"
    );
}

#[test]
fn another_engine_answers_what_one_fails() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let (broken, sound) = (Troubled::new(&snapshot), Troubled::new(&snapshot));
    broken.fails.store(true, Ordering::SeqCst);
    let places = vec![Place::cpu(sound.clone(), 1), batches(broken.clone())];
    let service = Service::new(places, ServiceOptions::default()).unwrap();
    let plans = plans(&snapshot, 200);
    let expected = expected(&snapshot, &plans);
    let submit = |plan: &Plan| service.submit(Arc::new(plan.clone()), Limits::default()).unwrap();
    let tickets: Vec<_> = plans.iter().map(submit).collect();
    for (ticket, expected) in tickets.into_iter().zip(&expected) {
        assert_eq!(ticket.wait().answer.unwrap().hits, *expected);
    }
    assert!(sound.asked.load(Ordering::SeqCst) >= 200);
    // Without another engine, the error is the answer.
    let alone = Service::new(vec![batches(broken)], ServiceOptions::default()).unwrap();
    let served = alone.submit(Arc::new(plans[0].clone()), Limits::default()).unwrap().wait();
    assert!(matches!(served.answer, Err(ServiceError::Exec(ExecError::Device { .. }))));
}

#[test]
fn cancelled_requests_are_not_answered_and_the_end_answers_all() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    let service =
        Service::new(vec![Place::cpu(engine.clone(), 1)], ServiceOptions::default()).unwrap();
    let plans = plans(&snapshot, 20);
    let held = engine.hangs.lock().unwrap();
    let (send, receive) = mpsc::channel();
    let submit = |plan: &Plan| {
        let send = send.clone();
        service
            .submit_with(Arc::new(plan.clone()), Limits::default(), move |served| {
                send.send(served.answer).unwrap();
            })
            .unwrap()
    };
    let ids: Vec<u64> = plans.iter().map(submit).collect();
    while engine.asked.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    service.cancel(ids[10]);
    assert!(matches!(receive.recv().unwrap(), Err(ServiceError::Cancelled)));
    service.cancel(ids[10]);
    drop(held);
    drop(send);
    drop(service);
    let rest: Vec<_> = receive.iter().collect();
    assert_eq!(rest.len(), 19, "each of the others has one answer");
    let is_fine =
        |answer: &Result<_, ServiceError>| matches!(answer, Ok(_) | Err(ServiceError::Closed));
    assert!(rest.iter().all(is_fine));
}

/// Requests keep the snapshot that they were planned for.
#[test]
fn a_newer_snapshot_takes_over_for_new_requests() {
    let fixture = fixture();
    let old = fixture.snapshot();
    let engine = Troubled::new(&old);
    let service = Service::new(vec![batches(engine.clone())], ServiceOptions::default()).unwrap();
    let before = plans(&old, 30);
    let expected_before = expected(&old, &before);
    let held = engine.hangs.lock().unwrap();
    let submit = |plan: &Plan| service.submit(Arc::new(plan.clone()), Limits::default()).unwrap();
    let tickets: Vec<_> = before.iter().map(submit).collect();
    fixture.add(&[Doc::text(9000, "ant ant ant"), Doc::text(9001, "yak")]).unwrap();
    let new = fixture.snapshot();
    service.replace(vec![Arc::new(CpuEngine::new(new.clone(), None))]);
    let after = plans(&new, 30);
    let expected_after = expected(&new, &after);
    let later: Vec<_> = after.iter().map(submit).collect();
    drop(held);
    for (ticket, expected) in
        tickets.into_iter().chain(later).zip(expected_before.iter().chain(&expected_after))
    {
        assert_eq!(ticket.wait().answer.unwrap().hits, *expected);
    }
    assert_ne!(expected_before, expected_after);
}

/// Neither a panicking engine nor a panicking caller keeps other requests from their answers.
#[test]
fn panics_end_nothing_but_their_request() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    let service =
        Service::new(vec![Place::cpu(engine.clone(), 1)], ServiceOptions::default()).unwrap();
    let plans = plans(&snapshot, 2);
    engine.panics.store(true, Ordering::SeqCst);
    let served = service.submit(Arc::new(plans[0].clone()), Limits::default()).unwrap().wait();
    assert!(matches!(served.answer, Err(ServiceError::Exec(ExecError::NoAnswer))));
    engine.panics.store(false, Ordering::SeqCst);
    service
        .submit_with(Arc::new(plans[1].clone()), Limits::default(), |_| panic!("as it should"))
        .unwrap();
    let served = service.submit(Arc::new(plans[0].clone()), Limits::default()).unwrap().wait();
    assert_eq!(served.answer.unwrap().hits, expected(&snapshot, &plans)[0]);
}

/// A ticket is a future: the service wakes the task that waits for it.
#[test]
fn a_ticket_is_a_future() {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    let service =
        Service::new(vec![Place::cpu(engine.clone(), 1)], ServiceOptions::default()).unwrap();
    let plans = plans(&snapshot, 1);
    let held = engine.hangs.lock().unwrap();
    let mut ticket =
        std::pin::pin!(service.submit(Arc::new(plans[0].clone()), Limits::default()).unwrap());
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(ticket.as_mut().poll(&mut context).is_pending());
    drop(held);
    let served = loop {
        match ticket.as_mut().poll(&mut context) {
            std::task::Poll::Ready(served) => break served,
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(served.answer.unwrap().hits, expected(&snapshot, &plans)[0]);
}

/// Requests are refused at once even while the servers or the scheduler are busy.
#[test]
fn who_is_refused_does_not_wait_for_others() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    *engine.slow.lock().unwrap() = Duration::from_millis(20);
    let service = Service::new(vec![batches(engine)], ServiceOptions::default()).unwrap();
    let plan = Arc::new(plans(&snapshot, 1).remove(0));
    let limits = Limits { deadline: Some(Duration::from_millis(30)), ..Limits::default() };
    let (mut refused, mut admitted) = (0, 0);
    for _ in 0..20_000 {
        match service.submit_with(plan.clone(), limits.clone(), |_| ()) {
            Ok(_) => admitted += 1,
            Err(ServiceError::Refused { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_micros(5));
    }
    let status = service.status();
    assert_eq!((status.counts.admitted, status.counts.refused), (admitted, refused));
    assert!(refused > 0 && admitted > 0, "{status:?}");
}

/// Deadlines are watched whatever else happens: no request has to wait until another one comes.
#[test]
fn every_deadline_is_kept_although_the_server_hangs() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let engine = Troubled::new(&snapshot);
    // With a cache, equal requests wait for the first one and are not refused.
    let options = ServiceOptions { cache: Some(1 << 20), ..ServiceOptions::default() };
    let service = Service::new(vec![Place::cpu(engine.clone(), 1)], options).unwrap();
    let plan = Arc::new(plans(&snapshot, 1).remove(0));
    let held = engine.hangs.lock().unwrap();
    let busy = service.submit(plan.clone(), Limits::default()).unwrap();
    while engine.asked.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A status call moves requests from the inbox to the scheduler, as servers do.
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                service.status();
            }
        });
        for i in 0..2000 {
            let deadline = Some(Duration::from_micros(100 + 50 * (i % 7)));
            let limits = Limits { deadline, ..Limits::default() };
            let (send, receive) = mpsc::channel();
            let done = move |served| send.send(served).unwrap();
            service.submit_with(plan.clone(), limits, done).unwrap();
            let served = receive.recv_timeout(Duration::from_secs(120));
            is_over.store(served.is_err() || i == 1999, Ordering::SeqCst);
            served.expect("the request expires").answer.unwrap();
        }
    });
    drop(held);
    assert!(busy.wait().answer.is_ok());
}

/// A request that waits for a stuck station is answered by another one, even if no further
/// request comes.
#[test]
fn others_look_after_a_station_that_got_stuck() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let (stuck, sound) = (Troubled::new(&snapshot), Troubled::new(&snapshot));
    // The place claims to be much faster, so all requests go into its queue.
    let fast = Place { share: 1e-4, ..batches(stuck.clone()) };
    let places = vec![Place::cpu(sound.clone(), 1), fast];
    let service = Service::new(places, ServiceOptions::default()).unwrap();
    let plans = plans(&snapshot, 2);
    let held = stuck.hangs.lock().unwrap();
    let first = service.submit(Arc::new(plans[0].clone()), Limits::default()).unwrap();
    while stuck.asked.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let (send, receive) = mpsc::channel();
    service
        .submit_with(Arc::new(plans[1].clone()), Limits::default(), move |served| {
            send.send(served).unwrap();
        })
        .unwrap();
    let served = receive.recv_timeout(Duration::from_secs(120)).unwrap();
    assert_eq!(
        (served.station, served.answer.unwrap().hits),
        (Some(0), expected(&snapshot, &plans)[1].clone())
    );
    drop(held);
    assert!(first.wait().answer.is_ok());
}
