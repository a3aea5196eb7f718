#include "crash/power_loss_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/base/random.h"

namespace cohort {

namespace {

// What has been written to a file and not been synced, in order; shared by all connections of the process.
struct Pending {
  struct Write {
    sqlite3_int64 offset;
    std::vector<char> bytes;
  };
  std::vector<Write> writes;
  sqlite3_int64 size = -1;  // As readers see it; -1: as on the disk.
};

struct World {
  explicit World(std::uint64_t seed) : random(seed) {}
  Mutex mutex;
  Random random COHORT_GUARDED_BY(mutex);
  std::map<std::string, Pending> files COHORT_GUARDED_BY(mutex);
  sqlite3_vfs* real = sqlite3_vfs_find(nullptr);
};
World* world = nullptr;

struct File {
  sqlite3_file base;
  Pending* pending;
  // The real file's bytes follow.
  [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
File* as_file(sqlite3_file* file) { return reinterpret_cast<File*>(file); }

int flush(File& file, const Pending::Write& write) {
  return file.real()->pMethods->xWrite(file.real(), write.bytes.data(), static_cast<int>(write.bytes.size()),
                                       write.offset);
}

sqlite3_int64 size_of(File& file) {
  if (file.pending->size >= 0) return file.pending->size;
  sqlite3_int64 size = 0;
  file.real()->pMethods->xFileSize(file.real(), &size);
  return size;
}

int close(sqlite3_file* file) { return as_file(file)->real()->pMethods->xClose(as_file(file)->real()); }

int read(sqlite3_file* raw, void* to, int count, sqlite3_int64 offset) {
  File& file = *as_file(raw);
  MutexLock lock(world->mutex);
  const sqlite3_int64 size = size_of(file);
  std::memset(to, 0, static_cast<std::size_t>(count));
  const int result = file.real()->pMethods->xRead(file.real(), to, count, offset);
  if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) return result;
  for (const Pending::Write& write : file.pending->writes) {
    const sqlite3_int64 from = std::max(offset, write.offset);
    const sqlite3_int64 end = std::min(offset + count, write.offset + static_cast<sqlite3_int64>(write.bytes.size()));
    if (from >= end) continue;
    std::memcpy(static_cast<char*>(to) + (from - offset), write.bytes.data() + (from - write.offset),
                static_cast<std::size_t>(end - from));
  }
  return offset + count <= size ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int write(sqlite3_file* raw, const void* from, int count, sqlite3_int64 offset) {
  File& file = *as_file(raw);
  MutexLock lock(world->mutex);
  const auto* bytes = static_cast<const char*>(from);
  file.pending->size = std::max(size_of(file), offset + count);
  file.pending->writes.push_back({offset, std::vector<char>(bytes, bytes + count)});
  if (world->random.chance(0.1)) {  // One of them reaches the disk by itself; it stays pending, so order is kept here.
    return flush(file, file.pending->writes[world->random.below(file.pending->writes.size())]);
  }
  return SQLITE_OK;
}

int sync(sqlite3_file* raw, int) {
  File& file = *as_file(raw);
  MutexLock lock(world->mutex);
  for (const Pending::Write& each : file.pending->writes) {
    if (const int result = flush(file, each); result != SQLITE_OK) return result;
  }
  file.pending->writes.clear();
  if (file.pending->size >= 0) file.real()->pMethods->xTruncate(file.real(), file.pending->size);
  file.pending->size = -1;
  return SQLITE_OK;
}

int truncate(sqlite3_file* raw, sqlite3_int64 size) {
  File& file = *as_file(raw);
  MutexLock lock(world->mutex);
  std::erase_if(file.pending->writes, [&](const Pending::Write& each) { return each.offset >= size; });
  for (Pending::Write& each : file.pending->writes) {
    if (each.offset + static_cast<sqlite3_int64>(each.bytes.size()) > size) {
      each.bytes.resize(static_cast<std::size_t>(size - each.offset));
    }
  }
  file.pending->size = size;
  return SQLITE_OK;
}

int file_size(sqlite3_file* raw, sqlite3_int64* size) {
  MutexLock lock(world->mutex);
  *size = size_of(*as_file(raw));
  return SQLITE_OK;
}

int lock_file(sqlite3_file* f, int level) { return as_file(f)->real()->pMethods->xLock(as_file(f)->real(), level); }
int unlock_file(sqlite3_file* f, int level) { return as_file(f)->real()->pMethods->xUnlock(as_file(f)->real(), level); }
int check_lock(sqlite3_file* f, int* out) {
  return as_file(f)->real()->pMethods->xCheckReservedLock(as_file(f)->real(), out);
}
int control(sqlite3_file* f, int op, void* argument) {
  if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_MMAP_SIZE) return SQLITE_OK;
  return as_file(f)->real()->pMethods->xFileControl(as_file(f)->real(), op, argument);
}
int sector_size(sqlite3_file* f) { return as_file(f)->real()->pMethods->xSectorSize(as_file(f)->real()); }
int characteristics(sqlite3_file*) { return 0; }
int shm_map(sqlite3_file* f, int page, int size, int extend, void volatile** to) {
  return as_file(f)->real()->pMethods->xShmMap(as_file(f)->real(), page, size, extend, to);
}
int shm_lock(sqlite3_file* f, int offset, int count, int flags) {
  return as_file(f)->real()->pMethods->xShmLock(as_file(f)->real(), offset, count, flags);
}
void shm_barrier(sqlite3_file* f) { as_file(f)->real()->pMethods->xShmBarrier(as_file(f)->real()); }
int shm_unmap(sqlite3_file* f, int remove) {
  return as_file(f)->real()->pMethods->xShmUnmap(as_file(f)->real(), remove);
}

const sqlite3_io_methods kMethods = {
    2,           close,      read,    write,       truncate,        sync,    file_size, lock_file,
    unlock_file, check_lock, control, sector_size, characteristics, shm_map, shm_lock,  shm_barrier,
    shm_unmap,   nullptr,    nullptr};

int open(sqlite3_vfs*, const char* name, sqlite3_file* raw, int flags, int* out_flags) {
  File& file = *as_file(raw);
  file.base.pMethods = nullptr;
  const int result = world->real->xOpen(world->real, name, file.real(), flags, out_flags);
  if (result != SQLITE_OK) return result;
  MutexLock lock(world->mutex);
  static int nameless = 0;
  file.pending = &world->files[name != nullptr ? name : "nameless " + std::to_string(++nameless)];
  file.base.pMethods = &kMethods;
  return SQLITE_OK;
}

int remove_file(sqlite3_vfs*, const char* name, int sync_folder) {
  {
    MutexLock lock(world->mutex);
    world->files.erase(name);
  }
  return world->real->xDelete(world->real, name, sync_folder);
}

}  // namespace

void register_power_loss_vfs(std::uint64_t seed) {
  world = new World(seed);  // For the life of the process.
  static sqlite3_vfs vfs = *world->real;
  vfs.zName = "power-loss";
  vfs.pNext = nullptr;
  vfs.szOsFile = static_cast<int>(sizeof(File)) + world->real->szOsFile;
  vfs.xOpen = open;
  vfs.xDelete = remove_file;
  sqlite3_vfs_register(&vfs, 0);
}

}  // namespace cohort
