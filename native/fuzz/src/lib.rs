//! Inputs for every decoder of the core, made from seeds.
//!
//! Owns: the [targets](targets) (one per decoder or family of decoders), the [mutations](mutate) that make their inputs, the
//! [judgement](run) of one input, the [corpus](corpus) of fixed inputs.
//! Promises: an input is a function of its seed, so a failure is replayed by one number. Each input is judged by: no panic; no more
//! memory allocated, in sum, than the stated multiple of its length; an end within [`run::LONGEST`]; and what the target
//! demands, above all that whatever is accepted is written again and read back as an equal value.
//! Reaches the inner decoders: valid encodings are damaged first, then lengths and checksums are made right again
//! ([`targets::Target::mend`]), so that the damage is looked at behind them.
//! Does not: measure coverage or evolve inputs; the share of accepted inputs that a run prints says that both sides are reached.

pub mod corpus;
pub mod mutate;
pub mod random;
pub mod run;
pub mod targets;
