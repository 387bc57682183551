//! Background tasks that continue after their request was answered, and their results, which are
//! kept until the server ends or newer tasks displace them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::error::{Failure, Kind};

/// Maximum number of tasks. The oldest completed tasks are dropped first.
pub(crate) const MAX_TASKS: usize = 1000;

/// Name of the only node, which is the prefix of task ids.
const NODE: &str = "warpseek";

/// All tasks.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    all: BTreeMap<u64, Task>,
}

struct Task {
    action: &'static str,
    description: String,
    /// Start time in milliseconds since 1970.
    started: u64,
    since: Instant,
    done: Option<(u128, Result<Value, Failure>)>,
}

impl Tasks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new task and returns its number.
    pub(crate) fn begin(&self, action: &'static str, description: String) -> Result<u64, Failure> {
        let mut state = self.state();
        if state.all.len() >= MAX_TASKS {
            let oldest = state.all.iter().find(|(_, task)| task.done.is_some()).map(|(id, _)| *id);
            let Some(oldest) = oldest else {
                let reason =
                    format!("{MAX_TASKS} tasks are running, which is the limit; try again later");
                return Err(Failure::new(Kind::Overload, reason));
            };
            state.all.remove(&oldest);
        }
        state.last += 1;
        let number = state.last;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started = u64::try_from(started.as_millis()).unwrap_or(u64::MAX);
        let task = Task { action, description, started, since: Instant::now(), done: None };
        state.all.insert(number, task);
        Ok(number)
    }

    /// Stores the result of a task.
    pub(crate) fn end(&self, number: u64, result: Result<Value, Failure>) {
        if let Some(task) = self.state().all.get_mut(&number) {
            task.done = Some((task.since.elapsed().as_nanos(), result));
        }
    }

    /// Returns the id of a task.
    pub(crate) fn id(number: u64) -> String {
        format!("{NODE}:{number}")
    }

    /// Returns a task by its id.
    pub(crate) fn get(&self, id: &str) -> Result<Value, Failure> {
        let number = id.strip_prefix(NODE).and_then(|rest| rest.strip_prefix(':')?.parse().ok());
        let state = self.state();
        let found = number.and_then(|number: u64| Some((number, state.all.get(&number)?)));
        let (number, task) = found.ok_or_else(|| {
            Failure::new(
                Kind::NotFound,
                format!("task [{id}] isn't running and hasn't stored its results"),
            )
        })?;
        let mut shown = json!({"completed": task.done.is_some(), "task": task.shown(number)});
        match &task.done {
            Some((_, Ok(response))) => shown["response"] = response.clone(),
            Some((_, Err(failure))) => shown["error"] = failure.cause(),
            None => {}
        }
        Ok(shown)
    }

    /// Returns all running tasks.
    pub(crate) fn running(&self) -> Value {
        let state = self.state();
        let running = state.all.iter().filter(|(_, task)| task.done.is_none());
        let running: serde_json::Map<String, Value> =
            running.map(|(number, task)| (Self::id(*number), task.shown(*number))).collect();
        json!({"nodes": {NODE: {"name": NODE, "tasks": running}}})
    }
}

impl Task {
    fn shown(&self, number: u64) -> Value {
        let took =
            self.done.as_ref().map_or_else(|| self.since.elapsed().as_nanos(), |done| done.0);
        json!({
            "node": NODE, "id": number, "type": "transport", "action": self.action, "description": self.description,
            "start_time_in_millis": self.started, "running_time_in_nanos": u64::try_from(took).unwrap_or(u64::MAX), "cancellable": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_are_done_make_room() {
        let tasks = Tasks::default();
        let begin = || tasks.begin("a", String::new());
        let first: Vec<u64> = (0..MAX_TASKS).map(|_| begin().unwrap()).collect();
        assert_eq!(begin().unwrap_err().status(), 429);
        tasks.end(first[1], Ok(json!({"deleted": 3})));
        tasks.end(first[0], Err(Failure::illegal("no")));
        assert_eq!(tasks.get("warpseek:2").unwrap()["response"]["deleted"], 3);
        let new = begin().unwrap();
        assert_eq!(tasks.get("warpseek:1").unwrap_err().status(), 404);
        assert_eq!(tasks.get("warpseek:2").unwrap()["completed"], true);
        assert_eq!(tasks.get(&Tasks::id(new)).unwrap()["completed"], false);
        assert!(begin().is_ok() && begin().is_err());
        for wrong in ["", "1", "warpseek", "warpseek:", "warpseek:x", "other:3"] {
            assert!(tasks.get(wrong).is_err(), "{wrong}");
        }
    }
}
