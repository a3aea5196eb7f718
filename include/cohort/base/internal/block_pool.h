#pragma once

#include <cstddef>

namespace cohort::internal {

/// Allocates memory for small objects that one thread makes and another thread drops, in great numbers. glibc's
/// allocator is slow at exactly this pattern.
///
/// Each thread keeps two magazines of 64 blocks per size and uses them without a lock. It exchanges full and empty
/// magazines with a depot, under one short lock per 64 blocks. Blocks are cut out of pages, see pages.h. If the depot
/// holds more than 8 MiB of one size, further blocks go back into their pages, and an empty page goes back to the
/// system. Blocks of more than 2 KiB come from operator new. Builds with a sanitizer use operator new for all blocks,
/// so that the sanitizer sees every allocation.
///
/// Thread-safety: thread-safe.
[[nodiscard]] void* allocate_block(std::size_t size);
/// Frees a block. `size` is the size that was passed to allocate_block().
void free_block(void* block, std::size_t size);

}  // namespace cohort::internal
