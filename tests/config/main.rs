//! Chains from properties: KIP-873's keys, the one-line form, mistakes, explain.

//KIP
mod mistakes;
mod nesting;
mod support;
