#pragma once

#include <cstddef>

namespace cohort::internal {

/// Memory for small objects that are made on one thread and dropped on another, in great numbers. glibc's allocator is
/// slow at exactly that.
///
/// Each thread keeps two magazines of 64 blocks per size and works on them without any lock; full and empty magazines
/// are exchanged through a depot, 64 blocks for one short lock. Blocks are cut out of pages of our own; what the depot
/// holds beyond 8 MiB of a size goes back into them, and an empty page to the system. Blocks of more than 2 KiB come
/// from operator new. Builds with a sanitizer use operator new throughout, so that it sees every block come and go.
///
/// Thread-safety: thread-safe.
[[nodiscard]] void* allocate_block(std::size_t size);
/// `size` as it was allocated.
void free_block(void* block, std::size_t size);

}  // namespace cohort::internal
