//! The only module with unsafe code: the memory pool, io_uring and FIEMAP.
