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

Secrets make_secrets() {
  Secrets made{};
  const KeyedHash random;
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = random("group key " + std::to_string(i));
  return made;
}

[[gnu::always_inline]] inline const Secrets& secrets_of_process() {
  static const Secrets secrets = make_secrets();
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
  const std::size_t size = std::min(key.size(), kMaxKeyBytes + 1);
  std::uint64_t sum = secret[0] + secret[1] * key.size();
  const auto add = [&](std::uint64_t letters) {
    secret += 2;
    sum += (secret[0] + (letters & 0xFFFF'FFFFU)) * (secret[1] + (letters >> 32));
  };
  // The last word may overlap the one before it: two keys of one length still differ in a letter.
  const char* const data = key.data();
  if (size >= 8) {
    for (std::size_t at = 0; at + 8 < size; at += 8) add(word(data + at));
    add(word(data + size - 8));
  } else if (size >= 4) {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::memcpy(&first, data, sizeof(first));
    std::memcpy(&last, data + size - sizeof(last), sizeof(last));
    add(first | std::uint64_t{last} << 32);
  } else if (size > 0) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(data[at]); };
    add(byte(0) | std::uint64_t{byte(size / 2)} << 8 | std::uint64_t{byte(size - 1)} << 16);
  }
  return static_cast<std::uint32_t>(sum >> 32);
}

}  // namespace cohort::internal
