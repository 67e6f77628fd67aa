//! Every order of steps of threads that meet at a device.

use headlong_models::models;

#[test]
fn thread_never_sleeps_while_posts_are_pending() {
    models::thread_never_sleeps_while_posts_are_pending();
}

#[test]
fn what_callers_make_necessary_is_done_by_the_owner() {
    models::what_callers_make_necessary_is_done_by_the_owner();
}

#[test]
fn no_message_stays_behind_when_the_lock_is_free() {
    models::no_message_stays_behind_when_the_lock_is_free();
}

#[test]
fn a_lock_that_is_closed_keeps_nothing() {
    models::a_lock_that_is_closed_keeps_nothing();
}
