#pragma once

#include <cstddef>

namespace cohort::internal {

template <class T>
class IntrusiveList;

/// The base class of list elements. An element can be in one list at a time.
template <class T>
class ListLinks {
  friend class IntrusiveList<T>;
  T* previous_ = nullptr;  // In the first element: the last element.
  T* next_ = nullptr;      // In the last element: null.
};

/// A doubly linked list of elements that carry their own links (T derives from ListLinks<T>). Inserting or erasing an
/// element anywhere in the list costs O(1) and allocates nothing. The list object is one pointer. It does not own its
/// elements.
///
/// Thread-safety: thread-compatible.
template <class T>
class IntrusiveList {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] T* front() const { return first_; }
  [[nodiscard]] T* back() const { return first_ != nullptr ? links(*first_).previous_ : nullptr; }
  [[nodiscard]] static T* next(const T& element) { return links(element).next_; }

  void push_back(T& element) {
    Links& own = links(element);
    own.next_ = nullptr;
    if (first_ == nullptr) {
      own.previous_ = first_ = &element;
      return;
    }
    T* last = links(*first_).previous_;
    own.previous_ = last;
    links(*last).next_ = &element;
    links(*first_).previous_ = &element;
  }

  void push_front(T& element) {
    Links& own = links(element);
    own.previous_ = first_ != nullptr ? links(*first_).previous_ : &element;
    own.next_ = first_;
    if (first_ != nullptr) links(*first_).previous_ = &element;
    first_ = &element;
  }

  /// Inserts `element` before `place`, which must be in this list.
  void insert_before(T& place, T& element) {
    if (&place == first_) return push_front(element);
    T* before = links(place).previous_;
    links(element).previous_ = before;
    links(element).next_ = &place;
    links(*before).next_ = &element;
    links(place).previous_ = &element;
  }

  /// Takes `element` out of the list; it must be in this list.
  void erase(T& element) {
    Links& own = links(element);
    if (own.next_ != nullptr) {
      links(*own.next_).previous_ = own.previous_;
    } else {
      links(*first_).previous_ = own.previous_;
    }
    (first_ == &element ? first_ : links(*own.previous_).next_) = own.next_;
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
};

}  // namespace cohort::internal
