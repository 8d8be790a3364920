//! Random histories of a group, its log, its members and its store, each step compared with a [model].

mod checks;
mod model;
mod steps;
mod stored;
mod world;

use proptest::prelude::*;

use steps::{Step, opening, settings, step};
use world::World;

/// Mostly beginning with something to do and someone to do it.
fn history() -> impl Strategy<Value = Vec<Step>> {
    let opening = prop_oneof![1 => proptest::collection::vec(step(false), 0..1), 4 => opening()];
    let rest = any::<bool>().prop_flat_map(|removals| proptest::collection::vec(step(removals), 1..150));
    (opening, rest).prop_map(|(opening, rest)| opening.into_iter().chain(rest).collect())
}

proptest! {
    #[test]
    fn a_group_does_what_the_model_does(first in settings(), dead_letters in any::<bool>(), steps in history()) {
        let mut world = World::new(first, dead_letters);
        for step in steps {
            world.take(step);
            world.settle_down();
            world.check();
        }
        world.come_to_rest();
    }
}
