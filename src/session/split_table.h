#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace cohort::internal {

/// A hash table that never stops to grow: with each insertion some buckets are split in two, as long as there are not
/// kPerNode for each node, and merged again as it empties (linear hashing). So no insertion takes long, however many
/// there are. It links nodes that others own, through their `next_` and `link_`, what points to them; so a node can be
/// taken out without looking for it.
///
/// Bucket i stands in segment bit_width(i / kFirst), so buckets never move.
///
/// Thread-safety: thread-compatible.
template <class Node, std::size_t kPerNode = 1>
class SplitTable {
 public:
  SplitTable() { segments_[0] = std::make_unique<Node*[]>(kFirst); }

  /// The first node of that hash for which `is_it(node)`, or null.
  template <class IsIt>
  [[nodiscard]] Node* find(std::uint32_t hash, IsIt&& is_it) const {
    for (Node* node = bucket(index(hash)); node != nullptr; node = node->next_) {
      if (node->hash() == hash && is_it(*node)) return node;
    }
    return nullptr;
  }

  void insert(Node& node) {
    push(bucket(index(node.hash())), node);
    ++size_;
    for (std::size_t i = 0; i < kPerNode && kPerNode * size_ > buckets_; ++i) split();
  }

  void erase(Node& node) {
    *node.link_ = node.next_;
    if (node.next_ != nullptr) node.next_->link_ = node.link_;
    node.next_ = nullptr;
    --size_;
    for (std::size_t i = 0; i < kPerNode && 4 * kPerNode * size_ < buckets_ && buckets_ > kFirst; ++i) merge();
  }
  /// Hints that a node of that hash is about to be taken out.
  void prefetch(std::uint32_t hash) const { __builtin_prefetch(&bucket(index(hash)), 1); }
  /// Hints that the node, which is at hand, is about to be taken out.
  static void prefetch_neighbours(const Node& node) {
    __builtin_prefetch(node.link_, 1);
    if (node.next_ != nullptr) __builtin_prefetch(&node.next_->link_, 1);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  /// `visit` may not change the table.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < buckets_; ++i) {
      for (Node* node = bucket(i); node != nullptr; node = node->next_) visit(*node);
    }
  }

 private:
  static constexpr std::size_t kFirst = 16;

  [[nodiscard]] std::size_t index(std::uint32_t hash) const {
    const std::size_t place = hash & (2 * half_ - 1);
    return place < buckets_ ? place : place & (half_ - 1);
  }
  [[nodiscard]] Node*& bucket(std::size_t i) const {
    const auto segment = static_cast<std::size_t>(std::bit_width(i / kFirst));
    return segments_[segment][segment == 0 ? i : i - (kFirst << (segment - 1))];
  }
  static void push(Node*& head, Node& node) {
    node.next_ = head;
    node.link_ = &head;
    if (head != nullptr) head->link_ = &node.next_;
    head = &node;
  }

  // Bucket `buckets_` gets what is its own of the one it has been together with so far.
  void split() {
    const std::size_t added = buckets_;
    const auto segment = static_cast<std::size_t>(std::bit_width(added / kFirst));
    if (!segments_[segment]) segments_[segment].reset(new (std::nothrow) Node*[kFirst << (segment - 1)]());
    if (!segments_[segment]) return;  // Then its chains grow for the time being.
    Node* left = bucket(added & (half_ - 1));
    bucket(added & (half_ - 1)) = nullptr;
    ++buckets_;
    if (buckets_ == 2 * half_) half_ *= 2;
    while (left != nullptr) {
      Node* node = left;
      left = node->next_;
      push(bucket(index(node->hash())), *node);
    }
  }

  void merge() {
    const std::size_t removed = --buckets_;
    if (buckets_ < half_) half_ /= 2;
    Node* left = bucket(removed);
    bucket(removed) = nullptr;
    while (left != nullptr) {
      Node* node = left;
      left = node->next_;
      push(bucket(index(node->hash())), *node);
    }
    if (removed == half_) segments_[static_cast<std::size_t>(std::bit_width(removed / kFirst))] = nullptr;
  }

  // Bucket i is the home of hashes with i in their lowest bits; half_ <= buckets_ < 2 * half_, and a power of two.
  std::array<std::unique_ptr<Node*[]>, 29> segments_;
  std::size_t half_ = kFirst;
  std::size_t buckets_ = kFirst;
  std::size_t size_ = 0;
};

}  // namespace cohort::internal
