//! The `waypost` program: picks a role and hands over; nothing else.

fn main() {}
