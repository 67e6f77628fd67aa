//! Every order of steps of the threads that share a device.

use headlong_models::models;

#[test]
fn thread_never_sleeps_while_posts_are_pending() {
    models::thread_never_sleeps_while_posts_are_pending();
}

#[test]
fn owner_does_the_work_that_callers_request() {
    models::owner_does_the_work_that_callers_request();
}

#[test]
fn no_message_remains_when_the_lock_is_free() {
    models::no_message_remains_when_the_lock_is_free();
}

#[test]
fn closed_lock_keeps_no_message() {
    models::closed_lock_keeps_no_message();
}
