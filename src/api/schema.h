#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::schema {

// JSON Schema, declared in C++.

using Json = nlohmann::ordered_json;

[[nodiscard]] Json any(const char* meaning = "");
[[nodiscard]] Json text(std::uint32_t most_characters = 0, std::uint32_t least_characters = 0);
[[nodiscard]] Json word(std::vector<std::string_view> words);
[[nodiscard]] Json whole(std::uint64_t min, std::uint64_t max);
[[nodiscard]] Json whole();
[[nodiscard]] Json number();
[[nodiscard]] Json flag();
[[nodiscard]] Json time();
/// A length of time above zero.
[[nodiscard]] Json length();
[[nodiscard]] Json object();
[[nodiscard]] Json list(Json items, std::uint32_t most = 0);
/// The schema of that name.
[[nodiscard]] Json named(std::string_view name);
[[nodiscard]] Json any_of(std::vector<Json> schemas);
/// The schema with a description.
[[nodiscard]] Json described(Json schema, std::string_view meaning);

/// A member of an object.
struct Member {
  const char* name;
  Json schema;
  enum class Presence : std::uint8_t { kOptional, kAlways } presence = Presence::kOptional;
};
inline constexpr auto kAlways = Member::Presence::kAlways;

/// An answer: it may have members that a later version adds.
[[nodiscard]] Json answer(const std::vector<Member>& members);
/// A request: it has no other members.
[[nodiscard]] Json request(const std::vector<Member>& members);

}  // namespace cohort::schema
