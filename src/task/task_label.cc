#include "cohort/task/internal/task_label.h"

#include <algorithm>
#include <string>

#include "cohort/base/internal/keyed_hash.h"

namespace cohort::internal {
namespace {

// Two words that overlap cover every length from one word to two.
template <class Word>
void copy_ends(char* to, const char* from, std::size_t size) {
  Word first{};
  Word last{};
  std::memcpy(&first, from, sizeof(Word));
  std::memcpy(&last, from + size - sizeof(Word), sizeof(Word));
  std::memcpy(to, &first, sizeof(Word));
  std::memcpy(to + size - sizeof(Word), &last, sizeof(Word));
}

// Names are short, and a call of memcpy for an unknown length costs more than all else that is done with them.
void copy(char* to, const char* from, std::size_t size) {
  if (size > 16) {
    std::memcpy(to, from, size);
  } else if (size >= 8) {
    copy_ends<std::uint64_t>(to, from, size);
  } else if (size >= 4) {
    copy_ends<std::uint32_t>(to, from, size);
  } else {
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
  }
}

// Numbers that nobody outside this process knows: two for the length, two for each eight bytes of the longest key.
using Secrets = std::array<std::uint64_t, 2 + 2 * (TaskLabel::kMaxKeyBytes / 8 + 1)>;

const Secrets& secrets_of_process() {
  static const Secrets secrets = [] {
    Secrets made{};
    const KeyedHash random;
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = random("group key " + std::to_string(i));
    return made;
  }();
  return secrets;
}

}  // namespace

TaskLabel::TaskLabel(const GroupAddress& group, std::string_view id)
    : key_size_(static_cast<std::uint16_t>(std::min(group.key.size(), kMaxKeyBytes + 1))),
      leased_(group.lease != nullptr ? 1 : 0),
      id_size_(static_cast<std::uint16_t>(std::min(id.size(), kMaxIdLength + 1)) & 0x7FFF),
      key_hash_(group.lease != nullptr ? group.lease->key_hash() : hash(group.key.substr(0, key_size_))) {
  char* to = in_place_.data() + first();
  if (!is_in_place()) {
    char* elsewhere = static_cast<char*>(allocate_block(size()));
    std::memcpy(to, &elsewhere, sizeof(elsewhere));
    to = elsewhere;
  }
  if (group.lease != nullptr) {
    std::memcpy(in_place_.data(), &group.lease, sizeof(GroupLease*));
    group.lease->ref();
  } else {
    copy(to, group.key.data(), key_size_);
    to += key_size_;
  }
  copy(to, id.data(), id_size_);
}

void TaskLabel::copy_elsewhere(const TaskLabel& other) {
  char* elsewhere = static_cast<char*>(allocate_block(size()));
  std::memcpy(elsewhere, other.bytes(), size());
  std::memcpy(in_place_.data() + first(), &elsewhere, sizeof(elsewhere));
}

// Multilinear hashing (Lemire and Kaser). The letters are the 32-bit words of the key. Each letter is added to a
// secret, the sums are multiplied in pairs, and the products are added up with one for the length; the upper half is
// the hash. Two keys have the same hash with a chance of 2^-32, even if an attacker has chosen them.
std::uint32_t TaskLabel::hash(std::string_view key) {
  const std::uint64_t* secret = secrets_of_process().data();
  std::uint64_t sum = secret[0] + secret[1] * key.size();
  const auto add = [&](std::uint64_t letters) {
    secret += 2;
    sum += (secret[0] + (letters & 0xFFFF'FFFFU)) * (secret[1] + (letters >> 32));
  };
  const char* next = key.data();
  std::size_t left = std::min(key.size(), kMaxKeyBytes + 1);
  for (; left > 8; left -= 8, next += 8) add(word(next));
  std::uint64_t rest = 0;
  copy(reinterpret_cast<char*>(&rest), next, left);
  add(rest);
  return static_cast<std::uint32_t>(sum >> 32);
}

}  // namespace cohort::internal
