//! Tests of the scheduler with a virtual clock: no request is lost or answered twice, none
//! starves, and stations share the work.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use proptest::prelude::*;
use warpseek_sched::service::{
    Cohorts, Job, Nanos, PATIENCE, Record, Simulator, Station, Trouble, largest_cohort,
};
use warpseek_testkit::Random;

const MICRO: Nanos = 1_000;
const MILLI: Nanos = 1_000_000;

/// Returns the time to the next arrival, for independent arrivals with this mean interval.
fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * random.part().ln()
}

const CPU: Station = Station { servers: 2, batch: 1, fixed: 0, alone: 1.0 };
/// A station whose batch of one takes as long as any other batch.
const GPU: Station = Station { servers: 1, batch: 1000, fixed: 60 * MICRO, alone: f64::INFINITY };

/// Returns requests at this rate. Most are short, and their costs differ more on the CPU than on
/// the GPU.
fn arrivals(
    seed: u64,
    count: u64,
    per_second: f64,
    deadline: Option<Nanos>,
    stations: usize,
) -> Vec<Job> {
    let (mut random, mut now) = (Random::new(seed), 0.0);
    let job = |id: u64| {
        now += exponential(&mut random, 1e9 / per_second);
        let cpu = (20e3 * exponential(&mut random, 1.0).powi(2)) as Nanos + 5 * MICRO;
        let gpu = 4 * MICRO + cpu / 100;
        let arrived = now as Nanos;
        let costs = [Some(cpu), Some(gpu)][..stations].to_vec();
        Job { id, arrived, deadline: deadline.map(|time| arrived + time), costs, group: 0 }
    };
    (0..count).map(job).collect()
}

/// Returns actual costs that differ from the expected ones by up to a half.
fn noisy(seed: u64) -> impl FnMut(usize, &Job) -> Nanos {
    let mut random = Random::new(seed);
    move |station, job| {
        let expected = job.costs[station].unwrap_or(0) as f64;
        (expected * (0.5 + random.part())) as Nanos
    }
}

/// Checks that each request has exactly one record, which is no earlier than its arrival. Returns
/// the records by number.
fn one_each(jobs: &[Job], records: &[(u64, Record)]) -> HashMap<u64, Record> {
    let by_id: HashMap<u64, Record> = records.iter().copied().collect();
    assert_eq!(records.len(), jobs.len(), "each request has one answer");
    assert_eq!(by_id.len(), jobs.len(), "no request has two");
    for job in jobs {
        match by_id[&job.id] {
            Record::Answered { began, ended, .. } => assert!(job.arrived <= began && began < ended),
            Record::Expired { at } | Record::Failed { at } => assert!(job.arrived <= at),
            Record::Refused(_) => {}
        }
    }
    by_id
}

fn answered(records: &HashMap<u64, Record>) -> usize {
    records.values().filter(|record| matches!(record, Record::Answered { .. })).count()
}

#[test]
fn a_million_requests() {
    // The load is about two thirds of what both stations can do.
    let jobs = arrivals(1, 1_000_000, 120_000.0, Some(50 * MILLI), 2);
    let mut simulator = Simulator::new(&[CPU, GPU], Cohorts::Adaptive, noisy(2));
    let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
    let late = |job: &&Job| !matches!(records[&job.id], Record::Answered { ended, .. } if ended <= job.deadline.unwrap());
    let late = jobs.iter().filter(late).count();
    assert!(late < 1000, "{late} of a million were refused or late");
    let counts = simulator.counts();
    assert_eq!(counts.admitted + counts.refused, 1_000_000);
    assert!(counts.stations.iter().all(|[_, jobs, _]| *jobs > 10_000), "{counts:?}");
}

#[test]
fn overload_is_refused_at_once_and_the_others_are_in_time() {
    for stations in [&[CPU][..], &[CPU, GPU]] {
        let rate = if stations.len() == 1 { 100_000.0 } else { 600_000.0 };
        let jobs = arrivals(3, 200_000, rate, Some(50 * MILLI), stations.len());
        let mut simulator = Simulator::new(stations, Cohorts::Adaptive, noisy(4));
        let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
        let counts = simulator.counts().clone();
        let (mut kept, mut missed) = (0, 0);
        for job in &jobs {
            match records[&job.id] {
                Record::Refused(wait) => {
                    assert!(wait.is_some_and(|wait| wait > 10 * MILLI), "{wait:?}");
                }
                Record::Answered { ended, .. } if ended <= job.deadline.unwrap() => kept += 1,
                _ => missed += 1,
            }
        }
        assert!(counts.refused > 50_000, "{counts:?}");
        assert!(missed * 100 <= kept, "{missed} of {} were late", kept + missed);
        // Requests are refused only if there are too many of them.
        (0..stations.len()).for_each(|s| assert!(simulator.utilisation(s) > 0.9, "{s} was idle"));
    }
}

/// An overloaded station answers in large batches, which gets the most done, and in time.
#[test]
fn batches_are_large_under_overload() {
    // A batch of 1000 takes twice as long as an empty one.
    let gpu = Station { servers: 2, batch: 8192, fixed: 4 * MILLI, alone: f64::INFINITY };
    for (times, part) in [(0.7, 0.99), (1.5, 0.5), (4.0, 0.18)] {
        let rate = times * 2.0 * 1e9 / 4e3;
        let mut jobs = arrivals(31, 400_000, rate, Some(50 * MILLI), 2);
        jobs.iter_mut().for_each(|job| job.costs = vec![Some(4 * MICRO)]);
        let mut simulator = Simulator::new(&[gpu], Cohorts::Adaptive, noisy(32));
        let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
        let in_time = |job: &&Job| matches!(records[&job.id], Record::Answered { ended, .. } if ended <= job.deadline.unwrap());
        let (kept, admitted) = (jobs.iter().filter(in_time).count(), simulator.counts().admitted);
        assert!(kept as f64 >= 0.99 * admitted as f64, "{times}: {kept} of {admitted}");
        assert!(kept as f64 >= part * jobs.len() as f64, "{times}: {kept} of {}", jobs.len());
    }
}

/// Batches that occasionally take longer than expected make admission careful, so that admitted
/// requests keep their deadlines.
#[test]
fn admission_knows_how_far_batches_are_off() {
    let gpu = Station { servers: 4, batch: 8192, fixed: MILLI, alone: f64::INFINITY };
    let mut jobs = arrivals(33, 400_000, 2e5, Some(50 * MILLI), 2);
    jobs.iter_mut().for_each(|job| job.costs = vec![Some(40 * MICRO)]);
    let mut simulator = Simulator::new(&[gpu], Cohorts::Adaptive, noisy(34));
    for i in 0..160 {
        simulator =
            simulator.with_trouble(0, i * 13 * MILLI..(i * 13 + 1) * MILLI, Trouble::Slow(2));
    }
    let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
    // Learning takes some batches.
    let (mut kept, mut missed) = (0, 0);
    for job in jobs.iter().filter(|job| job.arrived > 1000 * MILLI) {
        match records[&job.id] {
            Record::Refused(_) => {}
            Record::Answered { ended, .. } if ended <= job.deadline.unwrap() => kept += 1,
            _ => missed += 1,
        }
    }
    assert!(missed * 99 <= kept, "{missed} missed, {kept} kept");
    assert!(kept > 80_000, "{kept} of 200,000, where 100,000 would be possible");
}

/// While the better station fails, requests are admitted that the other one can answer in time.
#[test]
fn a_station_that_fails_does_not_keep_the_other_from_work() {
    let mut jobs = arrivals(35, 1_000, 400.0, Some(50 * MILLI), 2);
    jobs.iter_mut().for_each(|job| job.costs = vec![Some(2 * MILLI), Some(2 * MICRO)]);
    let mut simulator = Simulator::new(&[CPU, GPU], Cohorts::Adaptive, noisy(36)).with_trouble(
        1,
        0..10_000 * MILLI,
        Trouble::Fails,
    );
    let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
    assert!(answered(&records) > 950, "{:?}", simulator.counts());
}

/// A request begins before any request that arrives after its due time, which is at most
/// `PATIENCE` after its arrival.
#[test]
fn long_requests_do_not_starve() {
    let mut jobs = arrivals(5, 100_000, 60_000.0, None, 1);
    for job in jobs.iter_mut().step_by(100) {
        job.costs[0] = Some(20 * MILLI);
    }
    let mut simulator =
        Simulator::new(&[CPU], Cohorts::Adaptive, |station, job: &Job| job.costs[station].unwrap());
    let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
    assert_eq!(answered(&records), jobs.len());
    let began = |id: u64| match records[&id] {
        Record::Answered { began, .. } => began,
        other => panic!("{other:?}"),
    };
    let mut latest = 0;
    for job in jobs.iter().rev() {
        // The earliest start of the requests that arrived long after this one.
        let after = jobs.partition_point(|other| other.arrived <= job.arrived + PATIENCE);
        if let Some(first) = jobs[after..].iter().take(100).map(|other| began(other.id)).min() {
            assert!(began(job.id) <= first, "{} waits while later ones are begun", job.id);
        }
        latest = latest.max(began(job.id) - job.arrived);
    }
    // Short requests are favoured: half of them wait less than the long ones cost.
    let mut waits: Vec<Nanos> = jobs
        .iter()
        .filter(|job| job.costs[0] < Some(MILLI))
        .map(|job| began(job.id) - job.arrived)
        .collect();
    let middle = waits.len() / 2;
    let (_, median, _) = waits.select_nth_unstable(middle);
    assert!(*median < latest, "{median} {latest}");
}

#[test]
fn idle_stations_take_from_others() {
    // The GPU is by far the better station for all requests.
    let mut jobs = arrivals(7, 100_000, 400_000.0, None, 2);
    for job in &mut jobs {
        job.costs = vec![Some(40 * MICRO), Some(4 * MICRO)];
    }
    let mut simulator = Simulator::new(&[CPU, GPU], Cohorts::Adaptive, noisy(8));
    let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
    assert_eq!(answered(&records), jobs.len());
    let used = [simulator.utilisation(0), simulator.utilisation(1)];
    assert!(used.iter().all(|&used| used > 0.9), "{used:?}");
    assert!(simulator.counts().stations[0][1] > 10_000, "{:?}", simulator.counts());
}

/// Both stations together are never much worse than the better one alone.
#[test]
fn both_are_at_least_as_good_as_the_better_one() {
    for (seed, cpu, gpu) in [(11, 40, 4), (12, 10, 10), (13, 5, 80), (14, 1000, 3)] {
        let last = |stations: &[Station], which: &[usize]| {
            let mut jobs = arrivals(seed, 20_000, 1e9, None, 2);
            for job in &mut jobs {
                let all = [Some(cpu * MICRO), Some(gpu * MICRO)];
                job.costs = which.iter().map(|&s| all[s]).collect();
            }
            let mut simulator = Simulator::new(stations, Cohorts::Adaptive, noisy(seed));
            let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
            let ended = records.values().map(|record| match record {
                Record::Answered { ended, .. } => *ended,
                other => panic!("{other:?}"),
            });
            ended.max().unwrap()
        };
        let (one, other, both) =
            (last(&[CPU], &[0]), last(&[GPU], &[1]), last(&[CPU, GPU], &[0, 1]));
        let better = one.min(other) as f64;
        assert!(both as f64 <= 1.05 * better, "{cpu} {gpu}: {one} {other} {both}");
    }
}

#[test]
fn a_station_that_fails_hangs_or_slows_is_left_out() {
    for trouble in [Trouble::Fails, Trouble::Slow(10), Trouble::Hangs] {
        for station in [0, 1] {
            let jobs = arrivals(17, 100_000, 40_000.0, Some(500 * MILLI), 2);
            let when = 500 * MILLI..1_500 * MILLI;
            let mut simulator = Simulator::new(&[CPU, GPU], Cohorts::Adaptive, noisy(18))
                .with_trouble(station, when, trouble);
            let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
            let in_time = |job: &&Job| matches!(records[&job.id], Record::Answered { ended, .. } if ended <= job.deadline.unwrap());
            let kept = jobs.iter().filter(in_time).count();
            // Requests that a hanging station has begun are lost: one batch of the GPU, or one
            // request of each thread.
            assert!(kept > 98_000, "{trouble:?} of {station}: {kept} in time");
            // Afterwards the station works again.
            let after = |job: &&Job| job.arrived > 4_000 * MILLI;
            let by = |job: &Job| match records[&job.id] {
                Record::Answered { station, .. } => Some(station),
                _ => None,
            };
            assert!(
                jobs.iter().filter(after).any(|job| by(job) == Some(station))
                    || jobs.last().unwrap().arrived < 4_000 * MILLI
            );
        }
    }
}

#[test]
fn cohorts_have_the_size_that_was_asked_for() {
    let jobs = arrivals(19, 20_000, 50_000.0, Some(50 * MILLI), 2);
    let jobs: Vec<Job> =
        jobs.into_iter().map(|job| Job { costs: job.costs[1..].to_vec(), ..job }).collect();
    let mut simulator = Simulator::new(&[GPU], Cohorts::Fixed(64), noisy(20));
    let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
    let sizes = records.values().filter_map(|record| match record {
        Record::Answered { batch, .. } => Some(*batch),
        _ => None,
    });
    assert!(sizes.clone().all(|size| size <= 64));
    assert!(sizes.filter(|&size| size == 64).count() > 5_000);
}

/// Returns requests at even intervals from a time on, which cost 4 us each.
fn even(ids: std::ops::Range<u64>, start: Nanos, per_second: u64, deadline: Nanos) -> Vec<Job> {
    let first = ids.start;
    let job = |id: u64| {
        let arrived = start + (id - first) * 1_000_000_000 / per_second;
        let costs = vec![Some(4 * MICRO)];
        Job { id, arrived, deadline: Some(arrived + deadline), costs, group: 0 }
    };
    ids.map(job).collect()
}

/// Returns the number of requests in the batch of each request, in the order of the requests, and
/// the number of requests that were not answered in time.
fn batches(jobs: &[Job], records: &[(u64, Record)]) -> (Vec<usize>, usize) {
    let (records, mut late) = (one_each(jobs, records), 0);
    let size = |job: &Job| match records[&job.id] {
        Record::Answered { ended, batch, .. } => {
            late += usize::from(job.deadline.is_some_and(|deadline| ended > deadline));
            batch
        }
        _ => {
            late += 1;
            0
        }
    };
    (jobs.iter().map(size).collect(), late)
}

/// A cohort has the size C at which T - C / rate is what C requests take, at each rate, also when
/// the rate changes. It gets the same done in less time than batches that leave at once, and than
/// smaller ones of a fixed size; larger ones cannot fill up in time.
#[test]
fn cohorts_by_deadline_are_as_large_as_the_deadline_allows() {
    let exact = |_: usize, job: &Job| job.costs[0].unwrap();
    let mut jobs = even(0..4_000, 0, 2_000, 50 * MILLI);
    jobs.extend(even(4_000..44_000, 2_000 * MILLI, 20_000, 50 * MILLI));
    let run = |cohorts: Cohorts| {
        let mut simulator = Simulator::new(&[GPU], cohorts, exact);
        let (sizes, late) = batches(&jobs, simulator.run(jobs.iter().cloned()));
        assert_eq!(late, 0, "{cohorts:?}");
        (sizes, simulator.utilisation(0))
    };
    let (sizes, by_deadline) = run(Cohorts::ByDeadline);
    // A twentieth of the deadline stays unused, and batches are assumed to take 1.2 times as long.
    let expected = |rate: f64| largest_cohort(rate, 50 * MILLI * 19 / 20, 72 * MICRO, 4.8e3);
    for (rate, jobs) in [(2e3, 1_000..3_500), (2e4, 20_000..42_000)] {
        let of = |size: usize| (size as f64 / expected(rate) - 1.0).abs();
        let all = &sizes[jobs];
        let good = all.iter().filter(|&&size| of(size) < 0.05).count();
        assert!(good == all.len(), "{good} of {} near {}", all.len(), expected(rate));
    }
    let (_, adaptive) = run(Cohorts::Adaptive);
    let (_, small) = run(Cohorts::Fixed(16));
    let (sizes, large) = run(Cohorts::Fixed(1000));
    assert!(sizes.iter().all(|&size| size < 1000), "a cohort of 1000 was gathered in time");
    assert!(by_deadline < 0.2 * adaptive && by_deadline < 0.7 * small, "{by_deadline} {small}");
    assert!(by_deadline < 1.02 * large, "{by_deadline} {large}");
}

#[test]
fn a_cohort_is_in_time_for_all_its_requests_however_their_costs_and_deadlines_differ() {
    let jobs = arrivals(25, 100_000, 30_000.0, Some(50 * MILLI), 2);
    let job = |job: Job| {
        let time = if job.id.is_multiple_of(50) { 5 } else { 50 } * MILLI;
        Job { deadline: Some(job.arrived + time), costs: job.costs[1..].to_vec(), ..job }
    };
    let jobs: Vec<Job> = jobs.into_iter().map(job).collect();
    let mut simulator = Simulator::new(&[GPU], Cohorts::ByDeadline, noisy(26));
    let (sizes, late) = batches(&jobs, simulator.run(jobs.iter().cloned()));
    assert!(late < 100, "{late} of 100,000 were late");
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!(mean > 100, "{mean}");
}

#[test]
fn without_a_deadline_a_cohort_waits_for_nothing() {
    let mut jobs = even(0..1_000, 0, 1_000, 50 * MILLI);
    jobs.iter_mut().for_each(|job| job.deadline = None);
    let exact = |_: usize, job: &Job| job.costs[0].unwrap();
    let mut simulator = Simulator::new(&[GPU], Cohorts::ByDeadline, exact);
    let (sizes, _) = batches(&jobs, simulator.run(jobs.iter().cloned()));
    assert!(sizes.iter().all(|&size| size == 1));
}

/// `OneAtATime` answers requests singly, each at the station that answers it earlier.
#[test]
fn one_at_a_time_is_one_at_a_time() {
    let jobs = arrivals(21, 5_000, 20_000.0, None, 2);
    let cost = |station: usize, job: &Job| job.costs[station].unwrap();
    let mut simulator = Simulator::new(&[CPU, GPU], Cohorts::OneAtATime, cost);
    let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
    let mut times = Vec::new();
    for job in &jobs {
        let Record::Answered { station, began, ended, batch } = records[&job.id] else {
            panic!("{:?}", records[&job.id])
        };
        let on_gpu = job.costs[1].unwrap() + GPU.fixed < job.costs[0].unwrap();
        assert_eq!((station, batch), (usize::from(on_gpu), 1), "{job:?}");
        times.push((began, ended));
    }
    times.sort_unstable();
    assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two at the same time");
    let counts = simulator.counts();
    assert!(counts.stations.iter().all(|[_, jobs, _]| *jobs > 500), "{counts:?}");
}

/// A station that is far slower than another does not take requests from it, unless the other one
/// is stuck.
#[test]
fn who_hardly_helps_takes_nothing() {
    let jobs = || {
        let mut jobs = arrivals(23, 50_000, 300_000.0, Some(200 * MILLI), 2);
        jobs.iter_mut().for_each(|job| job.costs = vec![Some(5 * MILLI), Some(3 * MICRO)]);
        jobs
    };
    let mut simulator = Simulator::new(&[CPU, GPU], Cohorts::Adaptive, noisy(24));
    one_each(&jobs(), simulator.run(jobs()));
    assert_eq!(simulator.counts().stations[0][1], 0);
    let stuck = 20 * MILLI..120 * MILLI;
    let mut simulator = Simulator::new(&[CPU, GPU], Cohorts::Adaptive, noisy(24)).with_trouble(
        1,
        stuck,
        Trouble::Hangs,
    );
    one_each(&jobs(), simulator.run(jobs()));
    assert!(simulator.counts().stations[0][1] > 10, "{:?}", simulator.counts());
}

#[test]
fn the_largest_cohort_can_be_gathered_and_answered_in_time() {
    for (rate, deadline, fixed, each) in
        [(100_000.0, 50 * MILLI, MILLI, 4e3), (1_000.0, 500 * MILLI, 60 * MICRO, 1e3)]
    {
        let size = largest_cohort(rate, deadline, fixed, each);
        let time = |size: f64| fixed as f64 + size * each + size * 1e9 / rate;
        assert!((time(size) - deadline as f64).abs() < 1.0, "{size}");
    }
    assert_eq!(largest_cohort(1e6, MILLI, 2 * MILLI, 1.0), 0.0);
}

fn any_job() -> impl Strategy<Value = (Nanos, Option<Nanos>, Option<Nanos>, Option<Nanos>, u64)> {
    let cost = || prop::option::weighted(0.9, 0..30 * MILLI);
    (0..5 * MILLI, prop::option::of(0..100 * MILLI), cost(), cost(), 0..2u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks random requests, costs and problems of the stations.
    #[test]
    fn no_request_is_lost_or_answered_twice(
        jobs in prop::collection::vec(any_job(), 0..120),
        fixed in prop::option::of(0usize..20),
        troubles in prop::collection::vec((0usize..2, 0..300 * MILLI, 1..300 * MILLI, 0u64..3), 0..4),
        seed in any::<u64>(),
    ) {
        let mut now = 0;
        let jobs: Vec<Job> = jobs.into_iter().enumerate().map(|(id, (gap, deadline, cpu, gpu, group))| {
            now += gap;
            Job { id: id as u64, arrived: now, deadline: deadline.map(|time| now + time), costs: vec![cpu, gpu], group }
        }).collect();
        let cohorts = match fixed {
            None => Cohorts::Adaptive,
            Some(0) => Cohorts::OneAtATime,
            Some(size) => Cohorts::Fixed(size),
        };
        let mut simulator = Simulator::new(&[CPU, GPU], cohorts, noisy(seed));
        for (station, from, time, what) in troubles {
            let what = [Trouble::Fails, Trouble::Slow(10), Trouble::Hangs][what as usize];
            simulator = simulator.with_trouble(station, from..from + time, what);
        }
        let records = one_each(&jobs, simulator.run(jobs.iter().cloned()));
        for job in &jobs {
            if let Record::Answered { station, .. } = records[&job.id] {
                prop_assert!(job.costs[station].is_some(), "it cannot answer that");
            }
            if job.costs.iter().all(Option::is_none) {
                prop_assert_eq!(records[&job.id], Record::Refused(None));
            }
        }
        prop_assert_eq!(simulator.scheduler().waiting(), 0);
    }
}
