#pragma once

#include <functional>
#include <string>

#include "backend/postgres/loop.h"

namespace cohort::postgres {

/// Gives events their numbers, on one node of all. Events are written in the transactions of their tasks, and a number
/// drawn there could become visible after a higher one. So one leader numbers what is visible, and readers see numbered
/// events only. The events of one task keep their order, because they are written under the lock of its row.
///
/// Leadership is a row with a term. Each transaction of a leader checks the term. Another node becomes the leader if it
/// has seen the row unchanged for a lease, by its own clock.
///
/// Thread-safety: confined to the loop's thread.
class Leader {
 public:
  struct Hooks {
    std::function<void(std::uint64_t last_number)> numbered;  ///< Events up to this number can be read.
    std::function<bool()> is_closing;
  };

  Leader(Loop& loop, Connect connect, std::string instance, Hooks hooks);

  void open() { link_.open(); }
  /// There are events without a number, here or on another node.
  void poke();
  /// Gives the leadership up, and then calls `done`.
  void resign(Function<void()> done);
  void close() { link_.close(); }
  [[nodiscard]] bool leads() const { return term_ != 0; }
  /// It is not known yet whether another node leads.
  [[nodiscard]] bool is_undecided() const { return is_undecided_; }
  /// Does something only a leader does, such as to remove what is old.
  [[nodiscard]] Session* session() { return link_.session(); }

 private:
  static constexpr Duration kLease = std::chrono::seconds(15);
  static constexpr Duration kTick = std::chrono::seconds(1);

  void tick();
  void look();
  void take(const std::string& holder, std::int64_t term);
  void number();

  Loop& loop_;
  Link link_;
  const std::string instance_;
  const Hooks hooks_;
  bool is_undecided_ = true;
  std::int64_t term_ = 0;  // 0: another node leads, or none.
  bool is_numbering_ = false;
  bool is_poked_ = false;
  bool is_ticking_ = false;
  std::pair<std::int64_t, std::int64_t> seen_{-1, -1};  // Term and renewals of the row,
  Time seen_since_{};                                   // since then.
};

}  // namespace cohort::postgres
