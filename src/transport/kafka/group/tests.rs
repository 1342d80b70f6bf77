//! Against the embedded broker, with faults that only it can be told to make.
