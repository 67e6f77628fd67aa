//! Every order of steps of threads that meet at a device.

use headlong_models::models;

#[test]
fn no_post_is_slept_through() {
    models::no_post_is_slept_through();
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
