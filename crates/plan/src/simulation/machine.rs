//! The cores of a machine that several processes share. Each active process gets an equal part of
//! them, but at most one core.

/// The jobs in progress, each with the event that follows when it is done.
pub(super) struct Machine<T> {
    cores: f64,
    /// Seconds of work on a core that remain, and the event that follows.
    jobs: Vec<(f64, T)>,
    /// Time for which `jobs` was last updated.
    updated: f64,
    /// Number of the last plan; older plans no longer hold.
    plans: u64,
}

impl<T> Machine<T> {
    pub(super) fn new(cores: f64) -> Self {
        Machine { cores, jobs: Vec::new(), updated: 0.0, plans: 0 }
    }

    pub(super) fn begin(&mut self, now: f64, work: f64, then: T) {
        self.pass(now);
        self.jobs.push((work, then));
    }

    /// Returns the time when the next job is done if no other begins before, and the number of
    /// this plan.
    pub(super) fn plan(&mut self) -> Option<(f64, u64)> {
        let (_, left) = self.shortest()?;
        self.plans += 1;
        Some((self.updated + left.max(0.0) / self.pace(), self.plans))
    }

    /// Returns the event that follows the job that is done now; `None` if the plan no longer
    /// holds.
    pub(super) fn finish(&mut self, now: f64, plan: u64) -> Option<T> {
        if plan != self.plans {
            return None;
        }
        self.pass(now);
        let (at, _) = self.shortest()?;
        Some(self.jobs.swap_remove(at).1)
    }

    /// Returns the seconds of work that each job gets per second.
    fn pace(&self) -> f64 {
        (self.cores / self.jobs.len() as f64).min(1.0)
    }

    fn pass(&mut self, now: f64) {
        let done = (now - self.updated) * self.pace();
        self.jobs.iter_mut().for_each(|(left, _)| *left -= done);
        self.updated = now;
    }

    fn shortest(&self) -> Option<(usize, f64)> {
        let left = self.jobs.iter().enumerate().map(|(at, (left, _))| (at, *left));
        left.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the end and the number of each job, given the start and the length of each.
    fn run(cores: f64, jobs: &[(f64, f64)]) -> Vec<(f64, usize)> {
        let mut machine = Machine::new(cores);
        let (mut begun, mut done) = (0, Vec::new());
        loop {
            let next = machine.plan();
            match (jobs.get(begun), next) {
                (Some(&(at, work)), next) if next.is_none_or(|(then, _)| at < then) => {
                    machine.begin(at, work, begun);
                    begun += 1;
                }
                (_, Some((at, plan))) => {
                    assert_eq!(machine.finish(at, plan + 1), None);
                    done.push((at, machine.finish(at, plan).unwrap()));
                }
                _ => return done,
            }
        }
    }

    #[test]
    fn cores_are_shared_evenly() {
        // Up to as many jobs as there are cores do not affect each other.
        assert_eq!(run(2.0, &[(0.0, 3.0), (1.0, 1.0)]), [(2.0, 1), (3.0, 0)]);
        // Two jobs share one core: 1 second alone, 2 seconds at half the pace, and the rest
        // alone.
        assert_eq!(run(1.0, &[(0.0, 3.0), (1.0, 1.0)]), [(3.0, 1), (4.0, 0)]);
        // Four equal jobs on two cores all end after twice the time.
        assert_eq!(
            run(2.0, &[(0.0, 1.0); 4]).iter().map(|job| job.0).collect::<Vec<_>>(),
            [2.0; 4]
        );
        assert!(run(2.0, &[]).is_empty());
    }
}
