#include "node/former_config.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace cohort::internal {
namespace {

YamlNode* find(YamlNode& map, std::string_view key) {
  const auto found = std::ranges::find(map.children, key, &YamlNode::key);
  return found != map.children.end() ? &*found : nullptr;
}

void rename(YamlNode& root, std::string_view section, const std::string& former, const std::string& now,
            ConfigProblems& problems) {
  YamlNode* const in = find(root, section);
  YamlNode* const node = in != nullptr ? find(*in, former) : nullptr;
  if (node == nullptr) return;
  if (find(*in, now) != nullptr) {
    problems.add(node->key_place,
                 "'" + former + "' is the former name of '" + now + "', which is there too; remove it");
    std::erase_if(in->children, [&](const YamlNode& child) { return child.key == former; });
    return;
  }
  problems.warn(node->key_place, "'" + former + "' is called '" + now + "' now");
  node->key = now;
}

// Version 0.1 had one kind of store, and its keys directly in the section: {kind: sqlite, folder: data}.
void nest_store(YamlNode& root, ConfigProblems& problems) {
  constexpr std::array<std::string_view, 5> kFlat = {"kind", "folder", "synchronous", "max_queued", "max_batch"};
  YamlNode* const store = find(root, "store");
  if (store == nullptr) return;
  const auto is_flat = [&](const YamlNode& child) { return std::ranges::find(kFlat, child.key) != kFlat.end(); };
  const auto first = std::ranges::find_if(store->children, is_flat);
  if (first == store->children.end()) return;
  if (find(*store, "sqlite") != nullptr) {
    problems.add(first->key_place, "'" + first->key + "' belongs into store.sqlite");
    std::erase_if(store->children, is_flat);
    return;
  }
  if (YamlNode* const kind = find(*store, "kind"); kind != nullptr && kind->text != "sqlite") {
    problems.add(kind->place, "store.kind: found " + in_quotes(kind->text) +
                                  ", which this version does not have; write the section store.sqlite");
    std::erase_if(store->children, is_flat);
    return;
  }
  problems.warn(first->key_place, "the keys of the store belong into a section with its name now: store.sqlite");
  YamlNode sqlite{.kind = YamlNode::Kind::kMap, .place = store->place, .key = "sqlite", .key_place = store->key_place};
  for (YamlNode& child : store->children) {
    if (child.key != "kind") sqlite.children.push_back(std::move(child));
  }
  store->children.clear();
  store->children.push_back(std::move(sqlite));
}

}  // namespace

void rename_former_keys(YamlNode& root, ConfigProblems& problems) {
  rename(root, "chains", "callback_timeout", "step_timeout", problems);
  nest_store(root, problems);
}

}  // namespace cohort::internal
