//! Random histories of a group, its log, its members and its store, each step compared with a [model].

mod checks;
mod model;
mod steps;
mod stored;
mod world;

use proptest::prelude::*;

use steps::{Step, settings, step};
use world::World;

fn history() -> impl Strategy<Value = Vec<Step>> {
    any::<bool>().prop_flat_map(|removals| proptest::collection::vec(step(removals), 1..150))
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
