#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "node/config_kinds.h"

namespace cohort::internal {

struct SectionInfo;

struct KeyInfo {
  std::string name = {};
  std::string type = {};
  std::string initial = {};  ///< The default, as YAML; empty: there is none.
  std::string sample = {};   ///< For the example, as YAML.
  std::string help = {};
  bool is_required = false;
  std::shared_ptr<const SectionInfo> section = {};  ///< Null: a value.
  std::vector<std::string> names = {};              ///< Of sections by name: some for the example.
};

/// The keys of a section without their types: all that finding a key and writing the reference need.
struct SectionInfo {
  std::vector<KeyInfo> keys = {};

  /// Which key a child is; nothing: none of them, which is a problem.
  [[nodiscard]] std::optional<std::size_t> find(const YamlNode& child, const ConfigPlace& place) const;
  /// A problem for every required key that is not there.
  void require(const YamlNode& node, const ConfigPlace& place) const;
};

/// What the example shows instead of the default, and whether the key must be there.
struct KeyNotes {
  std::string sample = {};
  bool is_required = false;
};

/// The names of sections by name.
struct NameRule {
  static constexpr std::size_t kMaxSections = 10'000;
  static constexpr std::size_t kMaxBytes = 1024;
  std::vector<std::string> samples = {};
  /// What is wrong with a name, or "". Null: nothing but its length.
  std::function<std::string(const std::string&)> check = {};

  [[nodiscard]] bool accepts(const YamlNode& child, std::size_t index, const ConfigPlace& place) const;
};

/// Whether sections can be read of the node: it is a map, or nothing, which is an empty one. Otherwise a problem.
[[nodiscard]] bool is_section(const YamlNode& node, const ConfigPlace& place);

template <class V>
inline constexpr bool is_optional_v = false;
template <class V>
inline constexpr bool is_optional_v<std::optional<V>> = true;

/// The table of a section that is read into a T. Reading, problems and the reference are made of it; the defaults are
/// those of a T. A member is a pointer to one, or a function of a T (const or not) to a reference.
///
/// Thread-safety: thread-compatible; reading is const.
template <class T>
class Section {
 public:
  using Check = std::function<void(const T&, const YamlNode&, const ConfigPlace&)>;

  template <class Member, class V>
  Section& key(std::string name, Member member, ValueKind<V> kind, std::string help, KeyNotes notes = {}) {
    KeyInfo info = value_info(std::move(name), kind, std::move(help));
    info.is_required = notes.is_required;
    if (!notes.is_required) info.initial = initial_of(member, kind);
    if (!info.initial.empty()) info.sample = info.initial;
    if (!notes.sample.empty()) info.sample = std::move(notes.sample);
    return add(std::move(info), [member, kind](const YamlNode& node, T& to, const ConfigPlace& place) {
      V value{};
      if (!kind.read(node, value, place)) return;
      auto& target = std::invoke(member, to);
      using Target = std::remove_reference_t<decltype(target)>;
      if constexpr (is_optional_v<Target>) {
        target = static_cast<typename Target::value_type>(std::move(value));
      } else {
        target = static_cast<Target>(std::move(value));
      }
    });
  }

  template <class Member, class U>
  Section& section(std::string name, Member member, Section<U> inner, std::string help) {
    KeyInfo info = section_info(std::move(name), inner, std::move(help));
    return add(std::move(info), [member, inner](const YamlNode& node, T& to, const ConfigPlace& place) {
      auto& target = std::invoke(member, to);
      if constexpr (is_optional_v<std::remove_reference_t<decltype(target)>>) {
        inner.read(node, target.emplace(), place);
      } else {
        inner.read(node, target, place);
      }
    });
  }

  /// Sections of one kind under names of the user's. `slot` is a function of T& and a name: the U& it is read into.
  template <class Slot, class U>
  Section& by_name(std::string name, Slot slot, Section<U> inner, NameRule rule, std::string help) {
    KeyInfo info = section_info(std::move(name), inner, std::move(help));
    info.names = rule.samples;
    return add(std::move(info), [slot, inner, rule](const YamlNode& node, T& to, const ConfigPlace& place) {
      if (!is_section(node, place)) return;
      for (std::size_t i = 0; i < node.children.size(); ++i) {
        const YamlNode& child = node.children[i];
        if (rule.accepts(child, i, place)) inner.read(child, slot(to, child.key), place.inside(child.key));
      }
    });
  }

  /// Keeps where the section begins, as "line:column".
  Section& placed(std::string T::*member) {
    place_member_ = member;
    return *this;
  }

  /// Keeps where each item of the list under `key` begins.
  Section& placed_items(std::string key, std::vector<std::string> T::*member) {
    items_key_ = std::move(key);
    items_member_ = member;
    return *this;
  }

  /// Asked once everything in the section is right by itself.
  Section& check(Check check) {
    check_ = std::move(check);
    return *this;
  }

  void read(const YamlNode& node, T& to, const ConfigPlace& place) const {
    if (!is_section(node, place)) return;
    if (place_member_ != nullptr) to.*place_member_ = to_string(node.problem_place());
    if (const YamlNode* const items = items_member_ != nullptr ? node.find(items_key_) : nullptr) {
      for (const YamlNode& each : items->children) (to.*items_member_).push_back(to_string(each.problem_place()));
    }
    const std::size_t before = place.problems->count();
    for (const YamlNode& child : node.children) {
      if (const auto at = info_->find(child, place)) readers_[*at](child, to, place.inside(child.key));
    }
    info_->require(node, place);
    if (check_ && place.problems->count() == before) check_(to, node, place);
  }

  [[nodiscard]] std::shared_ptr<const SectionInfo> info() const { return info_; }

 private:
  using Reader = std::function<void(const YamlNode&, T&, const ConfigPlace&)>;

  Section& add(KeyInfo key, Reader reader) {
    info_->keys.push_back(std::move(key));
    readers_.push_back(std::move(reader));
    return *this;
  }
  template <class V>
  static KeyInfo value_info(std::string name, const ValueKind<V>& kind, std::string help) {
    return {.name = std::move(name), .type = kind.type, .sample = kind.sample, .help = std::move(help)};
  }
  template <class U>
  static KeyInfo section_info(std::string name, const Section<U>& inner, std::string help) {
    return {.name = std::move(name), .type = "a section", .help = std::move(help), .section = inner.info()};
  }

  template <class Member, class V>
  static std::string initial_of(Member member, const ValueKind<V>& kind) {
    const T initial{};
    const auto& value = std::invoke(member, initial);
    if constexpr (is_optional_v<std::remove_cvref_t<decltype(value)>>) {
      return value ? kind.show(static_cast<V>(*value)) : "";
    } else {
      return kind.show(static_cast<V>(value));
    }
  }

  std::shared_ptr<SectionInfo> info_ = std::make_shared<SectionInfo>();
  std::vector<Reader> readers_ = {};
  Check check_ = {};
  std::string T::*place_member_ = nullptr;
  std::string items_key_ = {};
  std::vector<std::string> T::*items_member_ = nullptr;
};

/// A table in Markdown for every section that has values, and under `## Example` a file with every key in it.
[[nodiscard]] std::string markdown_of(const SectionInfo& root);

}  // namespace cohort::internal
