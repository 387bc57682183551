//! Every engine of this crate against the suite of all engines.

use warpseek_exec_cpu::Exhaustive;
use warpseek_testkit::conformance;

conformance!(exhaustive, |snapshot, threads| Box::new(Exhaustive::new(snapshot, threads)));
