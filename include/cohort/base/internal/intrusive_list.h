#pragma once

#include <cstddef>

namespace cohort::internal {

template <class T>
class IntrusiveList;

/// The part of an element that links it into one list at a time.
template <class T>
class ListLinks {
  friend class IntrusiveList<T>;
  T* previous_ = nullptr;
  T* next_ = nullptr;
};

/// A doubly linked list of elements that carry their own links (T derives from ListLinks<T>), so that putting one in
/// or taking it out of the middle allocates nothing and costs O(1). It owns nothing.
///
/// Thread-safety: thread-compatible.
template <class T>
class IntrusiveList {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] T* front() const { return first_; }
  [[nodiscard]] static T* next(const T& element) { return links(element).next_; }

  void push_back(T& element) {
    Links& own = links(element);
    own.previous_ = last_;
    own.next_ = nullptr;
    (last_ != nullptr ? links(*last_).next_ : first_) = &element;
    last_ = &element;
  }

  void push_front(T& element) {
    Links& own = links(element);
    own.previous_ = nullptr;
    own.next_ = first_;
    (first_ != nullptr ? links(*first_).previous_ : last_) = &element;
    first_ = &element;
  }

  /// Puts `element` before `place`, which must be in this very list.
  void insert_before(T& place, T& element) {
    T* before = links(place).previous_;
    if (before == nullptr) return push_front(element);
    links(element).previous_ = before;
    links(element).next_ = &place;
    links(*before).next_ = &element;
    links(place).previous_ = &element;
  }

  /// `element` must be in this very list.
  void erase(T& element) {
    Links& own = links(element);
    (own.previous_ != nullptr ? links(*own.previous_).next_ : first_) = own.next_;
    (own.next_ != nullptr ? links(*own.next_).previous_ : last_) = own.previous_;
    own.previous_ = own.next_ = nullptr;
  }

  T* pop_front() {
    T* element = first_;
    if (element != nullptr) erase(*element);
    return element;
  }

 private:
  using Links = ListLinks<T>;
  static Links& links(T& element) { return element; }
  static const Links& links(const T& element) { return element; }

  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace cohort::internal
