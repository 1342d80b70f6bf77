//! Both directions of each format.

pub mod json;
