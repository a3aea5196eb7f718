#pragma once

namespace exec_helper {

/// A folder for the cgroups of this helper's steps, under the cgroup (version 2, wherever it is mounted) that the
/// helper is in. False: none may be made here; steps then have none.
bool make_cgroup_base();
void remove_cgroup_base();

/// A cgroup for one step. The program is put into it before it begins, so everything it starts is in it.
class StepCgroup {
 public:
  /// Makes it; without a base, or if that fails, it stands for nothing.
  explicit StepCgroup(unsigned long number);

  /// Puts the calling process into it.
  void enter() const;
  /// Sends SIGKILL to everything in it.
  void kill() const;
  /// When everything in it has ended.
  void remove() const;

 private:
  char path_[4096] = {};
};

}  // namespace exec_helper
