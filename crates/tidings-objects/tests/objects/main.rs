//! Archives on object storage, from outside.

mod engines;
mod sealing;
mod world;
