//! The journal from outside, on the simulated disk and on a real one.

mod basics;
mod checkpoint;
mod crash;
mod damage;
mod durability;
mod flips;
mod pins;
mod real;
mod recycle;
mod removal;
mod support;
