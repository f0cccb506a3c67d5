//! One run: a program against a world, with a verdict.

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use nereus_core::mutant::{self, Mutant};

use crate::law::{Law, Violation};
use crate::pair;
use crate::program::Program;
use crate::trace::Trace;
use crate::world::{Stop, World};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every law holds.
    Passed,
    /// One does not.
    Broken {
        /// The number of the step; `None` = before the first or after the last.
        step: Option<usize>,
        /// Which, and what was seen.
        violation: Violation,
    },
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What happened, line by line.
    pub trace: Trace,
    /// How it ended.
    pub verdict: Verdict,
}

/// How a run is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The deliberate bug that is switched on.
    pub mutant: Option<Mutant>,
    /// Whether the trace is kept.
    pub trace: bool,
}

/// What a seed stands for.
#[derive(Debug, Clone)]
pub enum Plan {
    /// One engine on one machine.
    Engine(Program),
    /// Two owners over one metadata store, on the two-step path.
    Pair(pair::Program),
}

impl Plan {
    /// The plan of a seed: every fourth is a pair.
    pub fn of(seed: u64) -> Plan {
        match seed % 4 {
            3 => Plan::Pair(pair::Program::generate(seed)),
            _ => Plan::Engine(Program::generate(seed)),
        }
    }

    /// How many steps it has.
    pub fn len(&self) -> usize {
        match self {
            Plan::Engine(program) => program.items.len(),
            Plan::Pair(program) => program.items.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The plan with these of its steps only.
    pub fn with_steps(&self, keep: impl Fn(usize) -> bool) -> Plan {
        match self {
            Plan::Engine(program) => {
                let mut program = program.clone();
                let mut at = 0;
                program.items.retain(|_| {
                    at += 1;
                    keep(at - 1)
                });
                Plan::Engine(program)
            }
            Plan::Pair(program) => {
                let mut program = program.clone();
                let mut at = 0;
                program.items.retain(|_| {
                    at += 1;
                    keep(at - 1)
                });
                Plan::Pair(program)
            }
        }
    }
}

/// Runs the plan of a seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    run_plan(&Plan::of(seed), options)
}

/// Runs a plan.
pub fn run_plan(plan: &Plan, options: &Options) -> Outcome {
    let mut trace = if options.trace {
        Trace::default()
    } else {
        Trace::silent()
    };
    let mut step = None;
    mutant::switch(options.mutant);
    let result = listen(|| match plan {
        Plan::Engine(program) => engine(program, &mut trace, &mut step),
        Plan::Pair(program) => pair::run(program, &mut trace, &mut step),
    });
    mutant::switch(None);
    let verdict = match result {
        Ok(()) => Verdict::Passed,
        Err(violation) => {
            trace.line(|| format!("BROKEN {violation}"));
            Verdict::Broken { step, violation }
        }
    };
    Outcome { trace, verdict }
}

fn engine(program: &Program, trace: &mut Trace, step: &mut Option<usize>) -> Result<(), Violation> {
    let mut world = World::new(program, std::mem::take(trace));
    let result = catch_unwind(AssertUnwindSafe(|| steps(program, &mut world, step)));
    *trace = std::mem::take(&mut world.trace);
    // What is left of the world may panic again while it goes, with locks poisoned by the first panic.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(world)));
    match result {
        Ok(Ok(()) | Err(Stop::Ended)) => Ok(()),
        Ok(Err(Stop::Broken(violation))) => Err(violation),
        Ok(Err(Stop::Crashed)) => Err(Violation {
            law: Law::Liveness,
            what: "a crash was not followed by a start".into(),
        }),
        Err(_) => Err(panicked().unwrap_or_else(unheard)),
    }
}

fn steps(program: &Program, world: &mut World, step: &mut Option<usize>) -> Result<(), Stop> {
    world.begin()?;
    for item in &program.items {
        *step = Some(item.number);
        world.step(item)?;
        swallowed()?;
    }
    *step = None;
    world.finish()?;
    Ok(swallowed()?)
}

/// A panic that the engine caught by itself is one as well.
pub(crate) fn swallowed() -> Result<(), Violation> {
    panicked().map_or(Ok(()), Err)
}

fn panicked() -> Option<Violation> {
    let message = HEARD.with(|heard| heard.borrow_mut().as_mut().and_then(Option::take))?;
    let law = if message.contains("starts at") || message.contains("not the next one") {
        Law::L4
    } else {
        Law::L17
    };
    Some(Violation {
        law,
        what: format!("a panic: {message}"),
    })
}

fn unheard() -> Violation {
    Violation {
        law: Law::L17,
        what: "a panic without a message".into(),
    }
}

/// Catches a panic of `work` as a violation.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Violation>) -> Result<(), Violation> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.and_then(|()| swallowed()),
        Err(_) => Err(panicked().unwrap_or_else(unheard)),
    }
}

thread_local! {
    /// `Some` = this thread is in a run: the first panic is kept and not printed.
    static HEARD: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Runs with panics kept quiet.
fn listen(work: impl FnOnce() -> Result<(), Violation>) -> Result<(), Violation> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let quiet = HEARD.with(|heard| match heard.borrow_mut().as_mut() {
                Some(first) => {
                    first.get_or_insert_with(|| info.to_string());
                    true
                }
                None => false,
            });
            if !quiet {
                before(info);
            }
        }));
    });
    HEARD.with(|heard| *heard.borrow_mut() = Some(None));
    let result = work();
    HEARD.with(|heard| *heard.borrow_mut() = None);
    result
}
