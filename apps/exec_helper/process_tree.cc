#include "exec_helper/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace exec_helper {
namespace {

constexpr int kMost = 4'194'304;  // Linux has no more. What is not used of it takes no memory.

struct Process {
  pid_t pid;
  pid_t parent;
  bool is_ours;
};

Process processes[kMost];

bool is_incomplete;  // The last look at all processes.

// "1234 (name) S 1 …": the name may hold anything, so it is skipped from the right. State Z does not mean that the
// process has ended: its main thread may have, while others run.
pid_t parent_of(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    // Where others' processes are hidden they are not ours either: one that may not be looked at may not be killed.
    is_incomplete = is_incomplete || (errno != ENOENT && errno != ESRCH && errno != EPERM && errno != EACCES);
    return -1;
  }
  char text[512];
  const ssize_t bytes = ::read(file, text, sizeof(text) - 1);
  ::close(file);
  if (bytes <= 0) return -1;
  text[bytes] = '\0';
  const char* const after_name = std::strrchr(text, ')');
  char state = 0;
  int parent = -1;
  if (after_name == nullptr || std::sscanf(after_name + 1, " %c %d", &state, &parent) != 2) return -1;
  return state == 'X' ? -1 : parent;
}

int read_processes() {
  DIR* const folder = ::opendir("/proc");
  is_incomplete = folder == nullptr;
  if (folder == nullptr) return 0;
  int count = 0;
  while (const dirent* const entry = ::readdir(folder)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (count == kMost) is_incomplete = true;
    if (count == kMost) continue;
    const pid_t parent = parent_of(pid);
    if (parent > 0) processes[count++] = {pid, parent, false};
  }
  ::closedir(folder);
  return count;
}

}  // namespace

// A process that has been sent SIGKILL starts no others, so repeating this comes to an end.
bool signal_descendants(int signal, const pid_t* spared, int spared_count) {
  const auto is_before = [](const Process& process, pid_t pid) { return process.pid < pid; };
  const int count = read_processes();
  std::sort(processes, processes + count, [](const Process& a, const Process& b) { return a.pid < b.pid; });
  const pid_t self = ::getpid();
  const auto is_spared = [&](pid_t pid) {
    return std::find(spared, spared + spared_count, pid) != spared + spared_count;
  };
  bool found = true;
  while (found) {  // Until no process is added whose parent is ours.
    found = false;
    for (int i = 0; i < count; ++i) {
      Process& each = processes[i];
      if (each.is_ours || is_spared(each.pid)) continue;
      const Process* const parent = std::lower_bound(processes, processes + count, each.parent, is_before);
      const bool has_our_parent = parent != processes + count && parent->pid == each.parent && parent->is_ours;
      if (each.parent == self || has_our_parent) found = each.is_ours = true;
    }
  }
  bool any = is_incomplete;
  for (int i = 0; i < count; ++i) {
    if (!processes[i].is_ours) continue;
    any = true;
    ::kill(processes[i].pid, signal);
  }
  return any;
}

}  // namespace exec_helper
