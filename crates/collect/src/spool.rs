//! A spool: producers put files into date folders, we bundle and ship them.
