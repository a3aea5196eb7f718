#include "exec_helper/step_cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace exec_helper {
namespace {

constexpr const char* kPrefix = "cohort-steps-";

char base[3072];  // Empty: there is none.

bool write_file(const char* folder, const char* name, const char* text) {
  char path[4224];
  std::snprintf(path, sizeof(path), "%s/%s", folder, name);
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = ::write(file, text, std::strlen(text)) >= 0;
  ::close(file);
  return written;
}

// Where version 2 is mounted. A line is "… ROOT MOUNT_POINT options - cgroup2 …".
bool find_mount(char* root, char* mount) {
  std::FILE* const table = std::fopen("/proc/self/mountinfo", "re");
  if (table == nullptr) return false;
  char line[4096];
  bool found = false;
  while (!found && std::fgets(line, sizeof(line), table) != nullptr) {
    if (std::strstr(line, " - cgroup2 ") == nullptr) continue;
    found = std::sscanf(line, "%*d %*d %*s %1023s %1023s", root, mount) == 2;
  }
  std::fclose(table);
  return found;
}

bool find_own(char* own) {
  std::FILE* const table = std::fopen("/proc/self/cgroup", "re");
  if (table == nullptr) return false;
  char line[1100];
  bool found = false;
  while (!found && std::fgets(line, sizeof(line), table) != nullptr) {
    found = std::sscanf(line, "0::%1023[^\n]", own) == 1;
  }
  std::fclose(table);
  return found;
}

void kill_all_in(const char* folder) {
  if (write_file(folder, "cgroup.kill", "1")) return;  // Linux 5.14.
  char path[4224];
  std::snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
  std::FILE* const list = std::fopen(path, "re");
  if (list == nullptr) return;
  int pid = 0;
  while (std::fscanf(list, "%d", &pid) == 1) ::kill(pid, SIGKILL);
  std::fclose(list);
}

void remove_tree(const char* folder) {
  DIR* const entries = ::opendir(folder);
  if (entries == nullptr) return;
  while (const dirent* const entry = ::readdir(entries)) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    char path[4224];
    std::snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    kill_all_in(path);
    ::rmdir(path);
  }
  ::closedir(entries);
  ::rmdir(folder);
}

// Of helpers that were killed.
void remove_stale(const char* parent) {
  DIR* const entries = ::opendir(parent);
  if (entries == nullptr) return;
  while (const dirent* const entry = ::readdir(entries)) {
    if (std::strncmp(entry->d_name, kPrefix, std::strlen(kPrefix)) != 0) continue;
    const pid_t helper = std::atoi(entry->d_name + std::strlen(kPrefix));
    if (helper > 0 && ::kill(helper, 0) == 0) continue;
    char path[4224];
    std::snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
    remove_tree(path);
  }
  ::closedir(entries);
}

}  // namespace

bool make_cgroup_base() {
  char root[1024];
  char mount[1024];
  char own[1024];
  if (!find_mount(root, mount) || !find_own(own)) return false;
  const std::size_t skipped = std::strcmp(root, "/") == 0 ? 0 : std::strlen(root);
  const char* const below = std::strncmp(own, root, skipped) == 0 ? own + skipped : own;
  char parent[2560];
  std::snprintf(parent, sizeof(parent), "%s%s", mount, std::strcmp(below, "/") == 0 ? "" : below);
  remove_stale(parent);
  std::snprintf(base, sizeof(base), "%s/%s%d", parent, kPrefix, ::getpid());
  if (::mkdir(base, 0755) == 0) return true;
  base[0] = '\0';
  return false;
}

void remove_cgroup_base() {
  if (base[0] != '\0') remove_tree(base);
}

StepCgroup::StepCgroup(unsigned long number) {
  if (base[0] == '\0') return;
  std::snprintf(path_, sizeof(path_), "%s/%lu", base, number);
  if (::mkdir(path_, 0755) != 0) path_[0] = '\0';
}

void StepCgroup::enter() const {
  if (path_[0] != '\0') write_file(path_, "cgroup.procs", "0");
}

void StepCgroup::kill() const {
  if (path_[0] != '\0') kill_all_in(path_);
}

void StepCgroup::remove() const {
  if (path_[0] != '\0') ::rmdir(path_);
}

}  // namespace exec_helper
