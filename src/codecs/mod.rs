//! Both directions of each format.

#[cfg(feature = "encryption")]
pub mod encryption;
pub mod json;

#[cfg(feature = "encryption")]
mod key_cache;
#[cfg(feature = "encryption")]
mod key_file;
#[cfg(feature = "encryption")]
mod keys;
